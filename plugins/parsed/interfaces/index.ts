/**
 * Interfaces of programs with the slots in which they are valid: those in the operator's folder, built-in ones, then what programs publish
 * on the chain. An account of the chain is read when a transaction needs it, and again for a transaction that is newer than the last
 * read; the history of the account then shows since when its content is valid.
 */

import { setImmediate as yieldToOthers } from 'node:timers/promises';
import type { ChainReader, Clock, Log, Store } from '../../../src/plugin/plugin.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import { nativeInterfaces } from '../../../src/solana/idl/native.ts';
import type { ParsedConfig } from '../config.ts';
import { createDecodeCosts } from '../costs.ts';
import type { FetchTransactions, ProjectAsker } from '../fetch.ts';
import { readVersions, writeVersion } from '../store.ts';
import { PROGRAMS_PER_CALL, type PublishedContent, readChanges, readContents } from './accounts.ts';
import { PublishedCache } from './cache.ts';
import { InterfaceFolder } from './folder.ts';
import { createLearned, type KnownPrograms, type Learned } from './learned.ts';
import { LookBacks } from './look-back.ts';
import {
  FOREVER,
  finalOf,
  hasGap,
  hashOf,
  isInDoubt,
  judgeVersion,
  NO_HASH,
  newestOf,
  type Published,
  type SlotSpan,
  versionPlaceOf,
} from './versions.ts';

export { MEMORY_PER_CHARACTER, shareOf } from './cache.ts';
export { INTERFACE_SOURCES, type KnownVersion, type Learned, type OwnInterfaces, type OwnOf } from './learned.ts';
export { FOREVER, type Version } from './versions.ts';

export interface Interfaces {
  /**
   * Reads the interfaces of programs as far as transactions up to these slots need them; `NOW`: as of now. `oldestSlots`: since when they
   * need them, where that is another slot. Errors: RequestError 503, and those of `ChainReader.call` and of the store.
   */
  learn(
    newestSlots: ReadonlyMap<string, number>,
    asker: ProjectAsker,
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

/** What one call of `learn` works with. */
interface Lesson {
  readonly reader: ChainReader;
  readonly newestSlots: ReadonlyMap<string, number>;
  readonly used: KnownPrograms;
  readonly asker: ProjectAsker;
}

export function createInterfaces({ chain, store, config, log, fetch, clock }: InterfacesParts): Interfaces {
  const folder = new InterfaceFolder(config.idls.folder, log);
  const cache: PublishedCache = new PublishedCache(config.idls.cacheBytes, (program) => lookBacks.forget(program));
  const lookBacks = new LookBacks({ cache, clock, log, fetch, store, timeoutMs: config.upstreamTimeoutMs });
  const costs = createDecodeCosts(clock, (one) => {
    log.warn(
      { name: one.name, address: one.address },
      'an interface takes too long to decode and is not used for a while',
    );
  });

  async function learn(
    newestSlots: ReadonlyMap<string, number>,
    asker: ProjectAsker,
    oldestSlots = newestSlots,
  ): Promise<Learned> {
    const used: KnownPrograms = new Map();
    const reader = config.idls.chain ? chain() : null;
    if (reader !== null) {
      const given = folder.byProgram;
      const programs = [...newestSlots.keys()].filter(
        (program) => !given.has(program) && !nativeInterfaces().has(program),
      );
      const lesson: Lesson = { reader, newestSlots, used, asker };
      await learnNewest(programs, lesson);
      for (const program of programs)
        await lookBack(program, { oldest: oldestSlots.get(program)!, newest: newestSlots.get(program)! }, lesson);
    }
    return createLearned({ folder: folder.byProgram, used, costs });
  }

  async function learnNewest(programs: readonly string[], lesson: Lesson): Promise<void> {
    const { newestSlots, used } = lesson;
    const isOpen = (program: string): boolean => !cache.isValid(program, newestSlots.get(program)!, used);
    for (const program of programs) {
      const known = cache.get(program);
      if (known !== undefined) used.set(program, known);
    }
    const wanted = programs.filter(isOpen);
    for (let from = 0; from < wanted.length; from += PROGRAMS_PER_CALL) {
      const part = wanted.slice(from, from + PROGRAMS_PER_CALL);
      await recall(part, used);
      const open = part.filter(isOpen);
      if (open.length > 0) await refresh(open, lesson);
    }
  }

  /**
   * Reads former interfaces where slots within these bounds have none that is known. Once is enough until others are replaced.
   */
  async function lookBack(program: string, slots: SlotSpan, lesson: Lesson): Promise<void> {
    const { reader, used, asker } = lesson;
    let known = used.get(program);
    if (known === undefined || !hasGap(known, slots)) return;
    if (isInDoubt(known)) {
      // The store may have the missing versions.
      await refresh([program], { ...lesson, newestSlots: new Map([[program, NOW]]) });
      known = used.get(program)!;
    }
    if (isInDoubt(known) || !lookBacks.isDue(program) || !hasGap(known, slots)) return;
    used.set(program, await lookBacks.read(reader, program, known, asker));
  }

  /** What this daemon has seen of programs before. */
  async function recall(programs: readonly string[], used: KnownPrograms): Promise<void> {
    const unknown = programs.filter((program) => !used.has(program));
    if (unknown.length === 0) return;
    for (const [program, stored] of await readVersions(store(), unknown, cache.mostCharacters)) {
      // Reading the texts of many programs takes long.
      await yieldToOthers();
      // Another call may have read it in the meantime, and more.
      const known = cache.get(program);
      if (known !== undefined) {
        used.set(program, known);
        continue;
      }
      const newest = stored.at(-1)!;
      const versions = stored.map(({ from, to, hash, text }) => ({
        from,
        to: to ?? FOREVER,
        hash,
        ...cache.readable(text),
      }));
      // Where the newest row cannot be read, any content is news.
      const hash = newest.to === null ? newest.hash : NO_HASH;
      cache.keep(program, finalOf({ versions, hash, checkedSlot: newest.checkedSlot }), used);
    }
  }

  async function refresh(programs: readonly string[], lesson: Lesson): Promise<void> {
    const { reader, newestSlots, asker } = lesson;
    const options = { ...asker, timeoutMs: config.upstreamTimeoutMs };
    const minSlot = Math.max(0, ...programs.map((program) => newestSlots.get(program)!).filter(Number.isFinite));
    for (const content of await readContents(reader, programs, minSlot, options)) await note(content, lesson);
  }

  async function note({ program, text, slot }: PublishedContent, { reader, used, asker }: Lesson): Promise<void> {
    const hash = hashOf(text);
    /** Whether the reading adds no version to what is known. */
    const isKnown = (known: Published | undefined): boolean => {
      if (known === undefined || (known.hash !== hash && known.checkedSlot < slot)) return false;
      cache.keep(program, known.checkedSlot < slot ? { ...known, checkedSlot: slot } : known, used);
      return true;
    };
    const newest = () => cache.get(program) ?? used.get(program);
    const first = newest();
    if (isKnown(first)) return;
    const read = cache.readable(text);
    if (text !== null && read.program === null)
      log.info({ program }, 'the program publishes an interface that cannot be read');
    // A program that still publishes nothing is not a change.
    const isNews = first !== undefined || text !== null;
    const after = first?.checkedSlot ?? -1;
    const options = { ...asker, timeoutMs: config.upstreamTimeoutMs };
    const changes = isNews
      ? await readChanges(reader, fetch, { program, slot, after }, options)
      : { slots: [], since: slot - 1 };
    // Another call may have seen the same change, or one before it.
    const known = judgeVersion(newest(), changes, hash);
    if (isKnown(known)) return;
    const { from, before } = versionPlaceOf(known, changes, { slot, hash });
    const versions = newestOf([...before, { from, to: FOREVER, hash, ...read }], cache.mostCharacters);
    cache.keep(program, { versions, hash, checkedSlot: slot }, used);
    lookBacks.noteVersion(program);
    if (!isNews) return;
    const written = { from, to: null, checkedSlot: slot, hash, text };
    await writeVersion(store(), program, written, {
      previous: before.at(-1) ?? null,
      isDoubted: known?.hash === NO_HASH,
    });
  }

  return { learn, follow: (block) => cache.follow(block), readFolder: () => folder.read() };
}
