/**
 * Interfaces of programs with the slots in which they are valid: those in the operator's folder, built-in ones, then what programs publish
 * on the chain. An account of the chain is read when a transaction needs it, and again for a transaction that is newer than the last
 * read; the history of the account then shows since when its content is valid.
 */

import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { decode32 } from '../../src/lib/base58.ts';
import {
  type CallContext,
  type ChainReader,
  type Clock,
  codeOf,
  type Log,
  messageOf,
  RequestError,
  type Store,
} from '../../src/plugin/plugin.ts';
import type { ChainBlock } from '../../src/ports/block.ts';
import type { ChainCallOptions } from '../../src/ports/chain.ts';
import { createSemaphore } from '../../src/runtime/semaphore.ts';
import { createSingleFlight } from '../../src/runtime/single-flight.ts';
import { DeadlinePassed, withDeadline } from '../../src/runtime/waiting.ts';
import {
  anchorAddress,
  anchorText,
  metadataAddress,
  metadataText,
  writesInterface,
} from '../../src/solana/idl/idl-accounts.ts';
import { nativeInterfaces } from '../../src/solana/idl/native.ts';
import { type FindInterface, isWritableAt } from '../../src/solana/idl/parse-transaction.ts';
import { MAX_IDL_BYTES, type ProgramInterface, readIdl } from '../../src/solana/idl/read-idl.ts';
import { meaningOfRefusal } from '../../src/solana/node-errors.ts';
import type { ParsedConfig } from './config.ts';
import { type BlockTime, createDecodeCosts } from './costs.ts';
import type { FetchTransactions } from './fetch.ts';
import { type Revision, readRevisions, type SignatureList, type SignatureRow } from './revisions.ts';
import { fillVersions, type Gaps, MAX_VERSIONS, readVersions, writeVersion } from './store.ts';

type Asker = Pick<CallContext, 'signal' | 'tenant'>;
type CallOptions = Asker & { readonly timeoutMs: number } & Pick<ChainCallOptions, 'archive' | 'only' | 'answeredBy'>;

/** Valid in the slots from `from` up to and without `to`; null: the program publishes none. */
export interface Version {
  readonly from: number;
  readonly to: number;
  readonly program: ProgramInterface | null;
}

interface PublishedVersion extends Version {
  /** SHA-256 of the interface's text; empty without one. */
  readonly hash: string;
  /** Characters of its text; 0 without an interface. */
  readonly size: number;
}

/** What is known of a program on the chain. Slots between two versions are unknown. */
interface Published {
  /** Oldest first. */
  readonly versions: readonly PublishedVersion[];
  /** Hash of the newest version; empty without one. `NO_HASH`: the accounts must be read again, and the result is stored. */
  readonly hash: string;
  /** The newest version is valid up to this slot. */
  readonly checkedSlot: number;
  /** Also contains what the store says beyond `checkedSlot`, which a read may confirm. */
  readonly doubted?: Published;
}

/** Sources of interfaces, in order of preference. */
export const SOURCES = ['project', 'folder', 'builtIn', 'chain'] as const;

export interface KnownVersion extends Version {
  readonly source: (typeof SOURCES)[number];
}

/** The interfaces that a project has uploaded, by program. */
export type OwnInterfaces = ReadonlyMap<string, readonly Version[]>;

/** Reads the interfaces of a project; null: it has none. `mayBeOld`: what was read within the last second will do. */
export type OwnOf = (project: string, how?: { readonly mayBeOld: boolean }) => Promise<OwnInterfaces | null>;

/** The interfaces that one call has read: they stay here when other calls evict them from the cache. */
export interface Learned {
  /** Finds an interface among those that `learn` has read. */
  readonly find: FindInterface;
  /** All known versions of a program that may decode something, those of a source oldest first. */
  versionsOf(program: string): readonly KnownVersion[];
  /** A copy that prefers the interfaces of a project. `time`: decoding time that they may take per block. */
  with(own: OwnInterfaces, time?: BlockTime): Learned;
}

/** What a call uses of programs on the chain. */
type KnownPrograms = Map<string, Published>;

export interface Interfaces {
  /**
   * Reads the interfaces of programs as far as transactions up to these slots need them; `NOW`: as of now. `oldestSlots`: since when they
   * need them, where that is another slot. Errors: RequestError 503, and those of `ChainReader.call` and of the store.
   */
  learn(
    newestSlots: ReadonlyMap<string, number>,
    asker: Asker,
    oldestSlots?: ReadonlyMap<string, number>,
  ): Promise<Learned>;
  /**
   * Notes what a released block changes. While blocks follow each other, the interfaces of programs are valid in each of them until one
   * writes their accounts, and are not read again. Blocks may be named twice, also after later ones.
   */
  follow(block: ChainBlock): void;
  /** Reads the folder again if it has changed. */
  readFolder(): Promise<void>;
}

export const NOW = Number.POSITIVE_INFINITY;

interface InterfacesParts {
  readonly chain: () => ChainReader | null;
  /** Usable when the plugin starts. */
  readonly store: () => Store;
  readonly config: Pick<ParsedConfig, 'idls' | 'upstreamTimeoutMs'>;
  readonly log: Log;
  readonly fetch: FetchTransactions;
  readonly clock: Clock;
}

export const FOREVER = Number.MAX_SAFE_INTEGER;
/** Sentinel: equals no content hash, and not the empty one. */
const NO_HASH = '?';
/** Estimated overhead of an entry, and of a version besides its text. */
const ENTRY_BYTES = 2_048;
/** A parsed interface takes many times the memory of its text. */
export const MEMORY_PER_CHARACTER = 24;
/** Largest share of a cache (one quarter) for one program or one project. The minimum fits one interface of 300 KB. */
const MIN_SHARE_BYTES = 8_388_608;
export const shareOf = (cacheBytes: number): number => Math.max(MIN_SHARE_BYTES, Math.floor(cacheBytes / 4));
/** The chain does not leave a block with so many slots upon it. */
const FINAL_SLOTS = 64;
const ACCOUNTS_PER_CALL = 100;
const PROGRAMS_PER_CALL = ACCOUNTS_PER_CALL / 2;
/** Transactions with an account that one look-up sees. */
const CHANGES = 1_000;
/** Newest of these that are read, to tell changes from transactions that only name the account. */
const MAX_READ = 8;
/** How long a call waits for former interfaces, and how long they are looked for. */
const LOOK_BACK_WAIT_MS = 20_000;
const LONGEST_LOOK_BACK_MS = 600_000;
const RETRY_S = 5;
/** Look-backs at the same time. */
const MAX_LOOK_BACKS = 8;
const MAX_WAITING_LOOK_BACKS = 256;
const MAX_FAILURES = 3;
const FAILED_MS = 600_000;

export function createInterfaces({ chain, store, config, log, fetch, clock }: InterfacesParts): Interfaces {
  const published = new LRUCache<string, Published>({
    maxSize: config.idls.cacheBytes,
    sizeCalculation({ versions: certain, doubted }) {
      const versions = doubted?.versions ?? certain;
      return ENTRY_BYTES * (1 + versions.length) + sum(versions.map(({ size }) => size)) * MEMORY_PER_CHARACTER;
    },
    dispose(_, program, reason) {
      if (reason !== 'set') watched.delete(program);
    },
  });
  /** Programs whose former interfaces are being read. */
  const readingBack = createSingleFlight<string, Published>();
  /** Look-backs of all projects; those of one project wait for each other. */
  const lookBacks = createSemaphore({
    concurrency: MAX_LOOK_BACKS,
    perGroup: MAX_LOOK_BACKS / 4,
    maxWaiting: MAX_WAITING_LOOK_BACKS,
  });
  /** For cached programs: the accounts whose writes are noticed in followed blocks. */
  const watched = new Map<string, Watched>();
  /** Characters of all texts that are cached of one program. */
  const mostCharacters = Math.floor(
    (shareOf(config.idls.cacheBytes) - ENTRY_BYTES * (1 + MAX_VERSIONS)) / MEMORY_PER_CHARACTER,
  );
  let folder: ReadonlyMap<string, readonly Version[]> = new Map();
  let folderState = '';
  /** Blocks that followed each other: slots and hashes of the newest ones. */
  const run = { from: Number.POSITIVE_INFINITY, to: -1, hashes: new Map<number, string>() };

  const isGiven = (program: string): boolean => folder.has(program) || nativeInterfaces().has(program);

  async function learn(
    newestSlots: ReadonlyMap<string, number>,
    asker: Asker,
    oldestSlots = newestSlots,
  ): Promise<Learned> {
    const used: KnownPrograms = new Map();
    const reader = config.idls.chain ? chain() : null;
    if (reader === null) return learnedOf(used);
    const isOpen = (program: string): boolean => !isValid(program, newestSlots.get(program)!, used);
    const programs = [...newestSlots.keys()].filter((program) => !isGiven(program));
    for (const program of programs) {
      const known = published.get(program);
      if (known !== undefined) used.set(program, known);
    }
    const wanted = programs.filter(isOpen);
    for (let from = 0; from < wanted.length; from += PROGRAMS_PER_CALL) {
      const part = wanted.slice(from, from + PROGRAMS_PER_CALL);
      await recall(part, used);
      const open = part.filter(isOpen);
      if (open.length > 0) await refresh(reader, open, { newestSlots, used }, asker);
    }
    for (const program of programs)
      await lookBack(
        reader,
        program,
        { oldest: oldestSlots.get(program)!, newest: newestSlots.get(program)! },
        used,
        asker,
      );
    return learnedOf(used);
  }

  /**
   * Reads former interfaces where slots within these bounds have none that is known. Once is enough until others are replaced. That goes on
   * when this call no longer waits for it: a call that comes later finds more of it done.
   */
  async function lookBack(
    reader: ChainReader,
    program: string,
    slots: Slots,
    used: KnownPrograms,
    asker: Asker,
  ): Promise<void> {
    let known = used.get(program);
    if (known === undefined || !hasGap(known, slots)) return;
    if (isInDoubt(known)) {
      // The store may have the missing versions.
      await refresh(reader, [program], { newestSlots: new Map([[program, NOW]]), used }, asker);
      known = used.get(program)!;
    }
    const own = watchedOf(program);
    if (isInDoubt(known) || own.isReadBack || clock.monotonic() < own.readBackMs || !hasGap(known, slots)) return;
    const running = readingBack.get(program) ?? startReading(reader, program, known, asker);
    if (running === null) throw beingRead(program);
    try {
      used.set(program, await withDeadline(clock, LOOK_BACK_WAIT_MS, () => running, asker.signal));
    } catch (error) {
      if (!(error instanceof DeadlinePassed)) throw error;
      throw beingRead(program, error);
    }
  }

  /** Null: too many wait already. */
  function startReading(
    reader: ChainReader,
    program: string,
    known: Published,
    { tenant }: Asker,
  ): Promise<Published> | null {
    const permit = lookBacks.acquire({ group: tenant.id });
    if (permit === null) return null;
    const work = readingBack.run(program, async () => {
      const release = await permit;
      try {
        return await withDeadline(clock, LONGEST_LOOK_BACK_MS, (signal) =>
          readBack(reader, program, known, { signal, tenant }),
        );
      } finally {
        release();
      }
    });
    work.catch((error: unknown) => {
      const own = watchedOf(program);
      own.failures += 1;
      if (own.failures < MAX_FAILURES && !(error instanceof DeadlinePassed)) return;
      // Calls with transactions of this program must not fail forever: for a while its interface counts as unknown.
      own.failures = 0;
      own.readBackMs = clock.monotonic() + FAILED_MS;
      log.warn({ program, error: messageOf(error) }, 'former interfaces of a program cannot be read');
    });
    return work;
  }

  async function readBack(
    reader: ChainReader,
    program: string,
    { checkedSlot: slot, ...first }: Published,
    asker: Asker,
  ): Promise<Published> {
    const options = { ...asker, timeoutMs: config.upstreamTimeoutMs };
    const accounts = [metadataAddress(program) ?? '', anchorAddress(program) ?? ''] as const;
    const lists = await listsOf(reader, accounts, slot, options);
    const listBefore = (address: string, before: string) =>
      listTransactions(reader, address, { before }, { ...options, archive: true });
    const revisions = await readRevisions(
      { program, metadata: accounts[0], anchor: accounts[1] },
      { lists: [lists[0]!, lists[1]!], listBefore, fetch },
      { slot, most: MAX_VERSIONS, mostCharacters },
      asker,
    );
    const current = (): Published => published.get(program) ?? { checkedSlot: slot, ...first };
    const known = current();
    const gaps = isInDoubt(known) ? null : filledOf(known.versions, revisions);
    if (gaps === null)
      log.info({ program }, 'the transactions that wrote an interface do not lead to its current content');
    if (gaps !== null && gaps.added.length + gaps.moved.length > 0) await fillVersions(store(), program, gaps);
    // Blocks, forks and other readings go on meanwhile.
    const now = current();
    const filling = isInDoubt(now) ? null : filledOf(now.versions, revisions);
    // Nothing was read about versions added since then, or about gaps between them.
    const own = watched.get(program);
    if (own !== undefined) own.isReadBack = now.versions.at(-1)?.from === first.versions.at(-1)?.from;
    if (filling === null || filling.added.length + filling.moved.length === 0) return now;
    const versions = filling.versions.map(({ text, ...one }) =>
      text === undefined ? one : { ...one, ...readable(text) },
    );
    const found = { ...now, versions: newestOf(versions, mostCharacters) };
    published.set(program, found);
    return found;
  }

  /** Whether nothing has changed up to a slot, by the last reading or by the blocks since then. */
  function isValid(program: string, slot: number, used: KnownPrograms): boolean {
    const known = used.get(program);
    if (known === undefined) return false;
    if (known.checkedSlot >= slot) return true;
    const { since, writtenIn } = watchedOf(program);
    const isFollowed = slot <= run.to && known.checkedSlot >= Math.max(since, run.from - 1);
    if (!isFollowed || writtenIn > known.checkedSlot) return false;
    keep(program, { ...known, checkedSlot: slot }, used);
    return true;
  }

  function follow(block: ChainBlock): void {
    const { slot, blockhash, previousBlockhash } = block;
    if (run.hashes.get(slot) === blockhash) return;
    const isNext = slot > run.to && run.hashes.get(run.to) === previousBlockhash;
    if (slot <= run.to) forgetFrom(slot);
    if (!isNext) {
      run.hashes.clear();
      run.from = slot;
    }
    run.to = slot;
    run.hashes.set(slot, blockhash);
    if (run.hashes.size > RUN_HASHES) run.hashes.delete(run.hashes.keys().next().value!);
    for (const program of published.keys()) {
      const own = watchedOf(program);
      if (own.keys.some((key) => isWritten(block, key))) own.writtenIn = slot;
    }
  }

  /** After a fork, changes seen in its blocks are forgotten: they are read again, and then leave the store. */
  function forgetFrom(slot: number): void {
    for (const [program, known] of [...published.entries()]) {
      if (known.checkedSlot < slot) continue;
      const left = known.versions.filter(({ from }) => from < slot);
      const isChanged = left.length < known.versions.length;
      const versions = left.map((one) => (one.to >= slot ? { ...one, to: FOREVER } : one));
      published.set(program, { versions, hash: isChanged ? NO_HASH : known.hash, checkedSlot: slot - 1 });
      if (isChanged) watchedOf(program).writtenIn = slot;
    }
  }

  function watchedOf(program: string): Watched {
    let own = watched.get(program);
    if (own === undefined) {
      const addresses = [metadataAddress(program), anchorAddress(program)];
      own = {
        keys: addresses.flatMap((address) => (address === null ? [] : (decode32(address) ?? []))),
        since: run.to,
        writtenIn: -1,
        isReadBack: false,
        failures: 0,
        readBackMs: Number.NEGATIVE_INFINITY,
      };
      watched.set(program, own);
    }
    return own;
  }

  const costs = createDecodeCosts(clock, (one) => {
    log.warn(
      { name: one.name, address: one.address },
      'an interface takes too long to decode and is not used for a while',
    );
  });

  function learnedOf(
    used: KnownPrograms,
    own: OwnInterfaces = new Map(),
    time: BlockTime | null = null,
    given = folder,
  ): Learned {
    return {
      with: (others, most) => learnedOf(used, others, most ?? null, given),
      find(program, slot) {
        // Before its first upload a project has the same interfaces as all others.
        const mine = own.get(program);
        const uploaded = mine === undefined ? null : at(mine, slot);
        if (uploaded !== null) return costs.ofProject(uploaded, program, time);
        const versions = given.get(program);
        if (versions !== undefined) return at(versions, slot);
        const native = nativeInterfaces().get(program);
        if (native !== undefined) return native;
        const known = used.get(program);
        // Above the last reading nothing is known, whatever the newest version was.
        const one = known === undefined || slot > known.checkedSlot ? null : at(known.versions, slot);
        return one === null ? null : costs.measured(one);
      },
      versionsOf(program) {
        const [files, native] = [given.get(program), nativeInterfaces().get(program)];
        const as = (source: KnownVersion['source'], versions: readonly Version[] = []) =>
          versions.map(({ from, to, program: one }) => ({ from, to, program: one, source }));
        const uploads = as('project', own.get(program)).map(({ program: one, ...version }) => ({
          ...version,
          program: one === null ? null : costs.ofProject(one, program, time),
        }));
        if (files !== undefined) return [...uploads, ...as('folder', files)];
        if (native !== undefined) return [...uploads, ...as('builtIn', [{ from: 0, to: FOREVER, program: native }])];
        const published = as('chain', used.get(program)?.versions).map(({ program: one, ...version }) => ({
          ...version,
          program: one === null ? null : costs.measured(one),
        }));
        return [...uploads, ...published];
      },
    };
  }

  function keep(program: string, known: Published, used: KnownPrograms): void {
    used.set(program, known);
    // Writes are noted from now on, not from when the accounts were read.
    watchedOf(program);
    published.set(program, known);
  }

  /** A text that alone is too large for its share counts as none that can be read. */
  function readable(text: string | null): Pick<PublishedVersion, 'program' | 'size'> {
    const program = text === null || text.length > mostCharacters ? null : readIdl(text);
    return { program, size: program === null ? 0 : text!.length };
  }

  /** What this daemon has seen of programs before. */
  async function recall(programs: readonly string[], used: KnownPrograms): Promise<void> {
    const unknown = programs.filter((program) => !used.has(program));
    if (unknown.length === 0) return;
    for (const [program, stored] of await readVersions(store(), unknown, mostCharacters)) {
      // Reading the texts of many programs takes long.
      await yieldToOthers();
      // Another call may have read it in the meantime, and more.
      const known = published.get(program);
      if (known !== undefined) {
        used.set(program, known);
        continue;
      }
      const newest = stored.at(-1)!;
      const versions = stored.map(({ from, to, hash, text }) => ({ from, to: to ?? FOREVER, hash, ...readable(text) }));
      // Where the newest row cannot be read, any content is news.
      const hash = newest.to === null ? newest.hash : NO_HASH;
      keep(program, finalOf({ versions, hash, checkedSlot: newest.checkedSlot }), used);
    }
  }

  async function refresh(
    reader: ChainReader,
    programs: readonly string[],
    { newestSlots, used }: { readonly newestSlots: ReadonlyMap<string, number>; readonly used: KnownPrograms },
    asker: Asker,
  ): Promise<void> {
    const options = { ...asker, timeoutMs: config.upstreamTimeoutMs };
    const places = programs.map((program) => [metadataAddress(program) ?? '', anchorAddress(program) ?? ''] as const);
    const newest = Math.max(0, ...programs.map((program) => newestSlots.get(program)!).filter(Number.isFinite));
    const answer = await call<AccountsAnswer>(
      reader,
      'getMultipleAccounts',
      [places.flat(), { commitment: 'confirmed', encoding: 'base64', ...(newest > 0 && { minContextSlot: newest }) }],
      options,
    );
    // A chain that shows no accounts has no interfaces.
    if (answer === null) return;
    const { slot } = answer.context;
    for (const [at, program] of programs.entries()) {
      const [metadata, anchor] = [answer.value[at * 2] ?? null, answer.value[at * 2 + 1] ?? null];
      const text =
        (metadata === null ? null : metadataText(metadata.owner, bytesOf(metadata))) ??
        (anchor === null ? null : anchorText(anchor.owner, bytesOf(anchor), program));
      await note(reader, { program, addresses: places[at]!, text, slot }, used, options);
    }
  }

  async function note(
    reader: ChainReader,
    { program, addresses, text, slot }: PublishedContent,
    used: KnownPrograms,
    options: CallOptions,
  ): Promise<void> {
    const hash = hashOf(text);
    /** Whether the reading adds no version to what is known. */
    const isKnown = (known: Published | undefined): boolean => {
      if (known === undefined || (known.hash !== hash && known.checkedSlot < slot)) return false;
      keep(program, known.checkedSlot < slot ? { ...known, checkedSlot: slot } : known, used);
      return true;
    };
    const newest = () => published.get(program) ?? used.get(program);
    const first = newest();
    if (isKnown(first)) return;
    const read = readable(text);
    if (text !== null && read.program === null)
      log.info({ program }, 'the program publishes an interface that cannot be read');
    // A program that still publishes nothing is not a change.
    const isNews = first !== undefined || text !== null;
    const after = first?.checkedSlot ?? -1;
    const changes = isNews
      ? await changesOf(reader, { program, addresses, slot, after }, options)
      : { slots: [], since: slot - 1 };
    // Another call may have seen the same change, or one before it.
    const known = judge(newest(), changes, hash);
    if (isKnown(known)) return;
    const { from, before } = placeOf(known, changes, { slot, hash });
    const versions = newestOf([...before, { from, to: FOREVER, hash, ...read }], mostCharacters);
    keep(program, { versions, hash, checkedSlot: slot }, used);
    watchedOf(program).isReadBack = false;
    if (!isNews) return;
    const written = { from, to: null, checkedSlot: slot, hash, text };
    await writeVersion(store(), program, written, {
      previous: before.at(-1) ?? null,
      isDoubted: known?.hash === NO_HASH,
    });
  }

  /**
   * When the two accounts of a program were changed, up to a slot. Both count: a program may begin to publish in the other one. What
   * comes after the slot in which the accounts were read belongs to the next reading. Of the newest transactions with an account, those
   * that do not change it are left out; older ones count.
   */
  async function changesOf(
    reader: ChainReader,
    { program, addresses, slot, after }: Omit<PublishedContent, 'text'> & { readonly after: number },
    callOptions: CallOptions,
  ): Promise<Changes> {
    const listers = new Set<string>();
    const lists = await listsOf(reader, addresses, slot, callOptions, listers);
    const rows = lists
      .flatMap((list) => list?.rows ?? [])
      .filter((row) => row.err === null && row.slot <= slot)
      .sort((left, right) => right.slot - left.slot);
    const news = rows.filter((row) => row.slot > after);
    const named = await mentionsAmong(program, news, after < 0, callOptions);
    const slots = rows.filter((row) => !named.has(row)).map((row) => row.slot);
    // Without the method all before this slot is unknown; a list that is cut ends in its last slot.
    const ends = lists.map((list) => (list === null ? slot - 1 : list.isWhole ? -1 : list.rows.at(-1)!.slot));
    const since = Math.max(...ends);
    if (after < 0 && named.size === MAX_READ) {
      // What was read changed nothing: the content is at least as old as the oldest of it. The one before may be no change either.
      return { slots: [], since: Math.max(since, news[MAX_READ - 1]!.slot - 1) };
    }
    if (since >= 0 || slots.length > 0) return { slots: slots.reverse(), since };
    // The node has pruned the last change, and everything else before its first block: another one may have more.
    const askedOf = listers.size === 0 ? [{}] : [...listers].map((only) => ({ only }));
    const firsts = await Promise.all(
      askedOf.map((how) =>
        call<number>(reader, 'getFirstAvailableBlock', [], { ...callOptions, ...how, archive: true }),
      ),
    );
    return { slots, since: Math.min(slot, Math.max(...firsts.map((first) => first ?? slot))) - 1 };
  }

  /**
   * Transactions with each of these accounts up to a slot, at most `CHANGES`, newest first; null: the upstream has no such method. `listers` gets
   * the labels of the upstreams that gave the older part.
   */
  async function listsOf(
    reader: ChainReader,
    addresses: readonly string[],
    slot: number,
    callOptions: CallOptions,
    listers = new Set<string>(),
  ) {
    const answeredBy = (upstream: string) => void listers.add(upstream);
    // Changes may be as old as the program.
    const options = { ...callOptions, archive: true, answeredBy };
    const read = (params: object, how: CallOptions) =>
      Promise.all(addresses.map((address) => listTransactions(reader, address, params, how)));
    const including = { minContextSlot: slot };
    return read(including, options).catch(async (error: unknown) => {
      if (!isBehind(error)) throw error;
      // Archives may always be some slots behind; what they lack yet is in the short histories of other upstreams.
      const [old, recent] = [await read({}, options), await read(including, callOptions)];
      return old.map((list, at) => mergedList(list, recent[at]!));
    });
  }

  /** The newest rows whose transactions do not change the interface. `onlyLast`: changes before the last one do not matter. */
  async function mentionsAmong(
    program: string,
    rows: readonly SignatureRow[],
    onlyLast: boolean,
    asker: Asker,
  ): Promise<ReadonlySet<SignatureRow>> {
    const among = new Set<SignatureRow>();
    const newest = rows.slice(0, MAX_READ);
    // Usually the last transaction with the account is its last change.
    for (const part of [newest.slice(0, 1), newest.slice(1)]) {
      const found = await fetch(
        part.map(({ signature }) => signature),
        'confirmed',
        asker,
      );
      for (const row of part) {
        const one = found.get(row.signature) ?? null;
        // A transaction that no upstream has or that cannot be decoded may be a change.
        if (one !== null && 'tx' in one && !writesInterface(one, program)) among.add(row);
        else if (onlyLast) return among;
      }
    }
    return among;
  }

  async function readFolder(): Promise<void> {
    const path = config.idls.folder;
    if (path === null) return;
    const names = (await readdir(path)).filter((name) => FILE.test(name)).sort();
    const states = await Promise.all(names.map(async (name) => fileState(join(path, name))));
    const state = names.map((name, at) => `${name} ${states[at]}`).join('\n');
    if (state === folderState) return;
    const found = new Map<string, { from: number; program: ProgramInterface }[]>();
    for (const name of names) {
      const [, program, slot = '0'] = FILE.exec(name)!;
      if (decode32(program!) === null) continue;
      const read = await readIdlFile(join(path, name));
      if (read === null) {
        log.warn({ file: name }, 'the file contains no valid interface');
        continue;
      }
      const list = found.get(program!) ?? [];
      list.push({ from: Number(slot), program: read });
      found.set(program!, list);
    }
    folder = new Map(Array.from(found, ([program, list]) => [program, inOrder(list)]));
    folderState = state;
    log.info({ interfaces: folder.size }, 'the folder of interfaces was read');
  }

  return {
    learn,
    follow,
    readFolder: () =>
      readFolder().catch((error: unknown) => {
        log.warn({ error: messageOf(error) }, 'the folder of interfaces cannot be read');
      }),
  };
}

/** Accounts of a program with its interface. */
interface Watched {
  readonly keys: readonly Uint8Array[];
  /** The followed slot up to which writes were not noted; -1: none was followed. */
  readonly since: number;
  /** The newest followed slot in which one was written; -1: none. */
  writtenIn: number;
  /** What was valid before and between the known versions was looked for. */
  isReadBack: boolean;
  /** Look-backs that failed one after the other; then the next one begins only at this time (monotonic). */
  failures: number;
  readBackMs: number;
}

/** Callers never lag each other by more blocks than this. */
const RUN_HASHES = 256;

/** Whether a transaction of the block may have changed the account. */
function isWritten({ keys, transactions }: ChainBlock, key: Uint8Array): boolean {
  const id = keys.find(key);
  return id >= 0 && transactions.some((tx) => tx.error === null && isWritableAt(tx, tx.keys.indexOf(id)));
}

/** Null when the upstream has no such method. Errors: RequestError 503 when it refuses, else those of `ChainReader.call`. */
async function call<T>(
  reader: ChainReader,
  ...[method, params, options]: Parameters<ChainReader['call']>
): Promise<T | null> {
  try {
    return await reader.call<T>(method, params, options);
  } catch (error) {
    if (codeOf(error) !== 'CHAIN_RPC_ERROR') throw error;
    if (meaningOfRefusal(error) === 'not-offered') return null;
    // Without an answer nothing is known of the program: to leave its instructions undecoded would be a guess.
    throw new RequestError(503, `Service unavailable: the Solana upstream refused ${method}`, { cause: error });
  }
}

/** The node has not reached the slot. */
const isBehind = (error: unknown): boolean => meaningOfRefusal((error as Error).cause) === 'not-yet';

interface AccountsAnswer {
  readonly context: { readonly slot: number };
  readonly value: readonly (NodeAccount | null)[];
}

interface NodeAccount {
  readonly owner: string;
  readonly data: readonly [base64: string, encoding: string];
}

/** What the accounts of a program show in a slot. */
interface PublishedContent {
  readonly program: string;
  readonly addresses: readonly string[];
  readonly text: string | null;
  readonly slot: number;
}

interface Changes {
  /** Oldest first. */
  readonly slots: readonly number[];
  /** There are no others after this slot. */
  readonly since: number;
}

/** Transactions with an account, newest first; null when the upstream has no such method. */
async function listTransactions(
  reader: ChainReader,
  address: string,
  params: object,
  options: CallOptions,
): Promise<SignatureList | null> {
  const range = { limit: CHANGES, commitment: 'confirmed', ...params };
  const rows = await call<readonly SignatureRow[]>(reader, 'getSignaturesForAddress', [address, range], options);
  return rows === null ? null : { rows, isWhole: rows.length < CHANGES };
}

/** A list of an archive that is behind, completed by a newer one. */
function mergedList(old: SignatureList | null, recent: SignatureList | null): SignatureList | null {
  if (old === null || recent === null) return null;
  const known = new Set(recent.rows.map(({ signature }) => signature));
  const isJoined = recent.isWhole || old.rows.some(({ signature }) => signature === recent.rows.at(-1)!.signature);
  if (!isJoined) return recent;
  return { rows: [...recent.rows, ...old.rows.filter(({ signature }) => !known.has(signature))], isWhole: old.isWhole };
}

const bytesOf = ({ data }: NodeAccount): Uint8Array => Buffer.from(data[0], 'base64');

/** Empty for none. */
const hashOf = (text: string | null): string =>
  text === null ? '' : createHash('sha256').update(text).digest('base64');

/** The first and the last slot of transactions that need an interface. */
interface Slots {
  readonly oldest: number;
  readonly newest: number;
}

const beingRead = (program: string, cause?: unknown): RequestError =>
  new RequestError(503, `Service unavailable: former interfaces of ${program} are being read`, {
    retryAfterS: RETRY_S,
    cause,
  });

/** Whether only a read shows which of the stored versions are valid. */
const isInDoubt = ({ doubted, versions }: Published): boolean => doubted !== undefined || versions.length === 0;

/** Whether a slot within these, and not above the last reading, has no version that is certain. */
function hasGap(known: Published, { oldest, newest }: Slots): boolean {
  const { versions, checkedSlot } = known.doubted ?? known;
  // Most programs publish nothing, and few have withdrawn an interface: only a call for all slots looks for former versions.
  if (oldest > 0 && versions.length > 0 && versions.every(({ hash }) => hash === '')) return false;
  let covered = oldest;
  for (const { from, to } of known.versions) {
    if (from > covered) break;
    covered = Math.max(covered, to);
  }
  return covered <= Math.min(newest, checkedSlot);
}

/** A version with its text, where the store does not have it yet. */
type Filled = PublishedVersion & { readonly text?: string | null };

interface Filling extends Gaps {
  readonly versions: readonly Filled[];
}

/** Puts revisions into the gaps between the known versions. Null when they contradict them: then something is missing in the revisions. */
function filledOf(versions: readonly PublishedVersion[], revisions: readonly Revision[]): Filling | null {
  const known = revisions.flatMap(({ from, to, text }) =>
    text === undefined ? [] : [{ from, to, text, hash: hashOf(text), program: null, size: 0 }],
  );
  const isWrong = (version: PublishedVersion): boolean =>
    known.some(({ from, to, hash }) => from < version.to && version.from < to && hash !== version.hash);
  if (versions.some(isWrong)) return null;
  const pieces = versions.flatMap(({ from: end }, at) => {
    const start = versions[at - 1]?.to ?? 0;
    return known.flatMap((one) => {
      const [from, to] = [Math.max(one.from, start), Math.min(one.to, end)];
      return from < to ? [{ ...one, from, to }] : [];
    });
  });
  const joined: { version: Filled; stored: number | null }[] = [];
  const all = [...versions, ...pieces].sort((left, right) => left.from - right.from);
  for (const version of all) {
    const stored = 'text' in version ? null : version.from;
    const last = joined.at(-1);
    // A version that the next read found again was valid in the meantime.
    const isSame = last?.version.to === version.from && last.version.hash === version.hash;
    if (!isSame || (last.stored !== null && stored !== null)) joined.push({ version, stored });
    else if (stored === null) last.version = { ...last.version, to: version.to };
    else Object.assign(last, { version: { ...version, from: last.version.from }, stored });
  }
  const before = new Map(versions.map((version) => [version.from, version]));
  return {
    versions: joined.map(({ version }) => version),
    added: joined.flatMap(({ version: { from, to, hash, text }, stored }) =>
      stored === null ? [{ from, to, checkedSlot: to - 1, hash, text: text ?? null }] : [],
    ),
    moved: joined.flatMap(({ version: { from, to }, stored }) =>
      stored === null || (stored === from && before.get(stored)!.to === to)
        ? []
        : [{ stored, from, to: to === FOREVER ? null : to }],
    ),
  };
}

/** Null where no version is known to be valid. */
function at(versions: readonly Version[], slot: number): ProgramInterface | null {
  return versions.findLast(({ from, to }) => slot >= from && slot < to)?.program ?? null;
}

/**
 * What is certain of stored versions: a change that was noted within `FINAL_SLOTS` may have been on a fork that the chain has left since,
 * also while nobody followed it.
 */
function finalOf(stored: Published): Published {
  const { versions, checkedSlot } = stored;
  const ends = versions.map(({ to }) => (to === FOREVER ? 0 : to));
  const final = Math.max(checkedSlot, ...ends) - FINAL_SLOTS;
  const open = versions.find(({ from, to }) => from > final || (to !== FOREVER && to > final));
  if (open === undefined) return stored;
  const left = versions
    .filter(({ from }) => from <= final)
    .map((version) => (version.to > final ? { ...version, to: FOREVER } : version));
  const certain = (open.from > final ? open.from : open.to) - 1;
  return { versions: left, hash: NO_HASH, checkedSlot: certain, doubted: stored };
}

/** Doubts end where the history of the accounts has the changes that are stored, or does not reach them. */
function judge(known: Published | undefined, { slots, since }: Changes, hash: string): Published | undefined {
  const doubted = known?.doubted;
  if (doubted === undefined) return known;
  const isLater = since > doubted.checkedSlot || slots.some((change) => change > doubted.checkedSlot);
  // Without a change since then the content is the same.
  if (doubted.hash !== hash && !isLater) return known;
  const isConfirmed = ({ from }: Version) => from <= known!.checkedSlot || from <= since || slots.includes(from);
  return doubted.versions.every(isConfirmed) ? doubted : known;
}

/** Since when the content that was read in `slot` is valid, and the versions before it with their ends. */
function placeOf(
  known: Published | undefined,
  { slots, since }: Changes,
  { slot, hash }: Pick<PublishedContent, 'slot'> & Pick<PublishedVersion, 'hash'>,
): { readonly from: number; readonly before: readonly PublishedVersion[] } {
  if (known === undefined) return { from: Math.min(Math.max(slots.at(-1) ?? 0, since + 1), slot), before: [] };
  const { checkedSlot } = known;
  const later = slots.filter((change) => change > checkedSlot);
  const open = known.versions.at(-1);
  // The change was on a fork: what was valid before it is so again.
  if (later.length === 0 && since <= checkedSlot && open?.to === FOREVER && open.hash === hash)
    return { from: open.from, before: known.versions.slice(0, -1) };
  // The index of a node may be behind its accounts.
  const last = later.at(-1) ?? slot;
  // Where not all changes since the last reading are known, the first of them is not.
  const end = (since <= checkedSlot ? later[0] : undefined) ?? checkedSlot + 1;
  const before = known.versions.map((version) => (version.to === FOREVER ? { ...version, to: end } : version));
  return { from: Math.min(Math.max(last, since + 1), slot), before };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

/** Drops the oldest versions that do not fit: anyone can publish more at little cost. */
function newestOf(versions: readonly PublishedVersion[], mostCharacters: number): readonly PublishedVersion[] {
  const kept = versions.slice(-MAX_VERSIONS);
  while (sum(kept.map(({ size }) => size)) > mostCharacters) kept.shift();
  return kept;
}

const FILE = /^([1-9A-HJ-NP-Za-km-z]{32,44})(?:@(\d{1,15}))?\.json$/;

async function fileState(path: string): Promise<string> {
  const { size, mtimeMs, ino } = await stat(path);
  return `${size} ${mtimeMs} ${ino}`;
}

async function readIdlFile(path: string): Promise<ProgramInterface | null> {
  const { size } = await stat(path);
  return size > MAX_IDL_BYTES ? null : readIdl(await readFile(path, 'utf8'));
}

function inOrder(list: readonly { readonly from: number; readonly program: ProgramInterface }[]): readonly Version[] {
  const sorted = [...list].sort((left, right) => left.from - right.from);
  return sorted.map(({ from, program }, index) => ({ from, to: sorted[index + 1]?.from ?? FOREVER, program }));
}
