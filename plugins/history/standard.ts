/**
 * Standard methods from the ledger and its archive, byte by byte as a node answers: released blocks, with their status, in the forms known
 * here. Lists are joined with what an upstream has above and below (`JoinedHistory`). Everything else, errors of parameters, unknown slots
 * and skipped ones included, is left to an upstream.
 */

import { decode, decode32 } from '../../src/lib/base58.ts';
import { arrayItems, objectMembers, stringify } from '../../src/lib/json.ts';
import { type Clock, type Log, messageOf, RpcError } from '../../src/plugin/plugin.ts';
import type { Tenant } from '../../src/ports/access.ts';
import type { KeptAnswer, KeptAnswers, KeptQuestion, UpstreamResult } from '../../src/ports/address-history.ts';
import { isPlaceholder } from '../../src/ports/block.ts';
import type { Commitment } from '../../src/ports/chain.ts';
import { ceilingOf, type JoinedHistory, type ListEnd, type PastReader } from '../../src/ports/ledger.ts';
import { decodeEntries } from '../../src/solana/decode/decode-block.ts';
import {
  EncodingMissing,
  type ShownTexts,
  type ShowOptions,
  showEntry,
  type TransactionEncoding,
  UnsupportedVersion,
} from '../../src/solana/show-transaction.ts';
import { createFinalFloor, type Denial, starting } from './final-floor.ts';
import {
  commitmentOf,
  configOf,
  createStatusContext,
  type HeldHistory,
  heldTransaction,
  includes,
  isSlot,
  type Members,
  reaches,
} from './held.ts';
import { asFinal, rowsAsFinal } from './late-status.ts';
import { bankLevelOf, getSignatureStatuses, getStatusesAlone, isStatuses, rankOf, statusesOf } from './statuses.ts';

interface StandardParts {
  /** Null without a ledger, or when the ledger answers nothing. */
  readonly past: () => PastReader | null;
  readonly joined: JoinedHistory;
  /** The newest slot that the follower found final; null without one. */
  readonly finalizedSlot: () => number | null;
  readonly clock: Clock;
  readonly log: Log;
  /** Called for each call that was answered. */
  readonly answered: (method: string) => void;
}

/** Null: an upstream has to answer. */
type Answer = (held: HeldHistory, params: readonly unknown[]) => Promise<string | KeptAnswer | null>;

const MAX_SLOTS = 500_000;
const MAX_SIGNATURES = 1_000;
const UNSUPPORTED_VERSION = -32015;

/** Methods, with the most params that a node takes: it refuses a call with more. */
const METHODS: Readonly<Record<string, { readonly answer: Answer; readonly maxParams: number }>> = {
  getBlock: { answer: getBlock, maxParams: 2 },
  getBlocks: { answer: getBlocks, maxParams: 3 },
  getBlocksWithLimit: { answer: getBlocksWithLimit, maxParams: 3 },
  getBlockTime: { answer: getBlockTime, maxParams: 1 },
  getTransaction: { answer: getTransaction, maxParams: 2 },
  getSignaturesForAddress: { answer: getSignaturesForAddress, maxParams: 2 },
  getSignatureStatuses: { answer: getSignatureStatuses, maxParams: 2 },
};

/** An upstream that lacks the older part answers these with a shorter list. */
const LISTS: ReadonlySet<string> = new Set(['getBlocks', 'getBlocksWithLimit', 'getSignaturesForAddress']);
const STATUSES = 'getSignatureStatuses';
const SIGNATURES = 'getSignaturesForAddress';

/** What an upstream says better while one answers. */
const WITHOUT_UPSTREAM: Readonly<Record<string, Answer>> = {
  getSignatureStatuses: getStatusesAlone,
  getSlot,
  getBlockHeight,
};

/** Names, for the metric. */
export const STANDARD_METHODS = [...new Set([...Object.keys(METHODS), ...Object.keys(WITHOUT_UPSTREAM)])];

export function createStandardAnswers(parts: StandardParts): KeptAnswers {
  const { joined, log } = parts;
  const context = createStatusContext(joined);
  const floor = createFinalFloor(parts);

  async function run(
    method: string,
    params: readonly unknown[],
    past: PastReader,
    tenant: Tenant,
  ): Promise<KeptAnswer | null> {
    try {
      const found = (await METHODS[method]!.answer({ past, joined, context, tenant }, params)) ?? null;
      if (found === null) return null;
      parts.answered(method);
      return typeof found === 'string' ? { resultText: found } : found;
    } catch (error) {
      if (error instanceof RpcError) throw error;
      if (error instanceof UnsupportedVersion) {
        parts.answered(method);
        return { errorText: JSON.stringify({ code: UNSUPPORTED_VERSION, message: error.message }) };
      }
      // Only a node can make it.
      if (error instanceof EncodingMissing) return null;
      const facts = { method, error: messageOf(error) };
      if (!LISTS.has(method)) {
        log.debug(facts, 'the ledger and its archive cannot be read; an upstream answers instead');
        return null;
      }
      log.warn(facts, 'a list cannot be answered: the ledger and its archive cannot be read');
      throw unreadable();
    }
  }

  function heldOf(params: string | null): { readonly past: PastReader; readonly given: readonly unknown[] } | null {
    const past = parts.past();
    const given: unknown = past === null || params === null ? null : JSON.parse(params);
    return past !== null && Array.isArray(given) ? { past, given } : null;
  }

  /** What is known to be final. */
  const knownFinal = async (past: PastReader | null): Promise<number> =>
    floor.atLeast((await past?.finalSlot().catch(() => -1)) ?? -1);

  /** What an upstream does not have may be in an archive that cannot be read now. Errors: -32002. */
  async function requireReadable<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (error) {
      log.warn({ error: messageOf(error) }, 'what an upstream lacks cannot be looked up: the archive cannot be read');
      throw unreadable();
    }
  }

  /** What an upstream said, completed with what is kept; what it denies even then. */
  async function completed(
    { method, params, tenant }: KeptQuestion,
    { resultText }: UpstreamResult,
  ): Promise<Completed> {
    if (method === SIGNATURES) {
      const text = rowsAsFinal(resultText, await knownFinal(parts.past()));
      return { answer: text === null ? null : { resultText: text }, denial: null };
    }
    if (method !== STATUSES && (method !== 'getTransaction' || resultText !== 'null')) return AS_IT_IS;
    const held = heldOf(params());
    if (method !== STATUSES) {
      if (held !== null)
        await requireReadable(() =>
          heldTransaction({ past: held.past, joined, context, tenant }, held.given[0], 'confirmed'),
        );
      return { answer: null, denial: { slot: Number.MAX_SAFE_INTEGER } };
    }
    const given: unknown = JSON.parse(resultText);
    if (!isStatuses(given)) return AS_IT_IS;
    context.saw(bankLevelOf(held?.given[1]), given.context.slot);
    const theirs = {
      context: given.context,
      value: await asFinal(given.value, await knownFinal(held?.past ?? null), held?.past ?? null),
    };
    const newestSlot = (await held?.past.heads())?.newestSlot ?? -1;
    const isBehind = theirs.context.slot < newestSlot;
    const hasChanged = (value: readonly unknown[]) => value.some((status, at) => status !== given.value[at]);
    if (!theirs.value.includes(null) && !isBehind)
      return {
        answer: hasChanged(theirs.value) ? { resultText: stringify({ ...given, value: theirs.value }) } : null,
        denial: null,
      };
    const ours =
      held === null
        ? null
        : await requireReadable(() => statusesOf({ past: held.past, joined, context, tenant }, held.given));
    const value = theirs.value.map((status, at) => {
      const own = ours?.value[at] ?? null;
      const [ownRank, rank] = [rankOf(own), rankOf(status)];
      return ownRank > rank || (isBehind && own !== null && ownRank === rank) ? own : status;
    });
    const denial = value.includes(null) ? { slot: theirs.context.slot } : null;
    if (!hasChanged(value)) return { answer: null, denial };
    const slot = Math.max(theirs.context.slot, ours?.slot ?? -1);
    return { answer: { resultText: stringify({ context: { ...theirs.context, slot }, value }) }, denial };
  }

  return {
    answer({ method, params, tenant }: KeptQuestion) {
      if (!Object.hasOwn(METHODS, method)) return null;
      const held = heldOf(parts.past() === null ? null : params());
      return held === null || held.given.length > METHODS[method]!.maxParams
        ? null
        : run(method, held.given, held.past, tenant);
    },
    checks: (method) => method === 'getTransaction' || method === SIGNATURES || Object.hasOwn(WITHOUT_UPSTREAM, method),
    async check(question, first, again) {
      const { method, params, tenant } = question;
      let said = first;
      let reason = 'The Solana upstreams do not stay the same';
      for (let turn = 0; turn <= MAX_TURNS; turn += 1) {
        const { answer, denial } = await completed(question, said);
        if (denial === null || floor.rests(denial, said)) return answer ?? (said === first ? null : said);
        // A node that works may be a slot below its own final one for a moment.
        if (turn > 1) await parts.clock.sleep(TURN_MS);
        const behind = await floor.whyBehind(said.upstream, again, tenant);
        reason = behind ?? reason;
        if (behind !== null) continue;
        const next = await again(said.upstream, method, params());
        if (next === null) throw starting('The Solana upstream does not answer again');
        said = next;
      }
      throw starting(reason);
    },
    async alone({ method, params, tenant }) {
      const held = Object.hasOwn(WITHOUT_UPSTREAM, method) ? heldOf(params() ?? '[]') : null;
      if (held === null) return null;
      const ours = await WITHOUT_UPSTREAM[method]!({ past: held.past, joined, context, tenant }, held.given).catch(
        () => null,
      );
      if (ours === null) return null;
      parts.answered(method);
      return typeof ours === 'string' ? { resultText: ours } : ours;
    },
  };
}

const unreadable = () =>
  new RpcError('unavailable', { details: 'The ledger or its archive cannot be read now', retryAfterS: 1 });

/** An upstream is asked at most so often about what it denies, with pauses that are short for who asked. */
const MAX_TURNS = 6;
const TURN_MS = 150;

interface Completed {
  /** Null: what the upstream said stays as it is. */
  readonly answer: KeptAnswer | null;
  readonly denial: Denial | null;
}

const AS_IT_IS: Completed = { answer: null, denial: null };

const ENCODINGS: readonly unknown[] = ['json', 'jsonParsed', 'base58', 'base64', 'binary'];

/** Undefined: an upstream has to read it. */
function showOptions(config: Members): ShowOptions | undefined {
  const { encoding = 'json', transactionDetails, maxSupportedTransactionVersion: most } = config;
  if (!ENCODINGS.includes(encoding)) return undefined;
  if (most != null && !(Number.isInteger(most) && (most as number) >= 0 && (most as number) <= 255)) return undefined;
  // Nodes since Agave 4.3 refuse it, older ones do not: the answer is that of the upstream.
  if ((encoding === 'base58' || encoding === 'binary') && ((most as number | null) ?? 0) >= 1) return undefined;
  return {
    encoding: encoding as TransactionEncoding,
    details: transactionDetails === 'accounts' ? 'accounts' : 'full',
    maxVersion: most == null ? null : (most as number),
    rewards: config['rewards'] !== false,
  };
}

async function hasBlock(held: HeldHistory, slot: unknown, commitment: Commitment): Promise<boolean> {
  if (!isSlot(slot) || !(await reaches(held, slot, commitment))) return false;
  return (await held.past.states(slot, slot)).blocks.length === 1;
}

const BLOCK_MEMBERS = ['encoding', 'transactionDetails', 'rewards', 'commitment', 'maxSupportedTransactionVersion'];
const DETAILS: readonly unknown[] = ['full', 'accounts', 'signatures', 'none'];

async function getBlock(held: HeldHistory, [slot, given]: readonly unknown[]): Promise<string | null> {
  const config = configOf(typeof given === 'string' ? { encoding: given } : given, BLOCK_MEMBERS);
  const options = config === undefined ? undefined : showOptions(config);
  const { transactionDetails: details = 'full', rewards = true } = config ?? {};
  if (config === undefined || options === undefined || !DETAILS.includes(details)) return null;
  if (typeof rewards !== 'boolean' || !(await hasBlock(held, slot, commitmentOf(config)))) return null;
  const text = await held.past.text(slot as number);
  const members = text === null ? null : objectMembers(text);
  if (text === null || members === null) return null;
  const shown: string[] = [];
  for (const { name, start, end } of members) {
    if (name === 'rewards' && !rewards) continue;
    if (name !== 'transactions') shown.push(`"${name}":${text.toString('utf8', start, end)}`);
    else if (details === 'signatures') {
      const signatures = signaturesText(text.subarray(start, end));
      if (signatures === null) return null;
      shown.push(`"signatures":${signatures}`);
    } else if (details !== 'none') {
      const entries = entriesText(text.subarray(start, end), options);
      if (entries === null) return null;
      shown.push(`"transactions":${entries}`);
    }
  }
  return `{${shown.join()}}`;
}

function entriesText(text: Buffer, options: ShowOptions): string | null {
  const items = arrayItems(text);
  if (items === null) return null;
  const shown: string[] = [];
  for (const { start, end } of items) {
    const entry = showEntry(text.subarray(start, end), options);
    if (entry === null) return null;
    const version = entry.version === null ? '' : `,"version":${entry.version}`;
    shown.push(`{"meta":${entry.meta},"transaction":${entry.transaction}${version}${moreOf(entry)}}`);
  }
  return `[${shown.join()}]`;
}

const moreOf = ({ more }: ShownTexts): string => more.map((member) => `,${member}`).join('');

/** Null when one could not be read. */
function signaturesText(text: Buffer): string | null {
  const entries = JSON.parse(text.toString('utf8')) as readonly unknown[];
  const { transactions } = decodeEntries(0, entries, new Uint8Array(32).fill(1));
  const signatures = transactions.map(({ signature }) => signature);
  return signatures.some(isPlaceholder) ? null : JSON.stringify(signatures);
}

async function getBlocks(held: HeldHistory, params: readonly unknown[]): Promise<KeptAnswer | null> {
  // The end may be left out, also before a configuration.
  const [start, second, third] = params;
  const isRange = second == null || typeof second === 'number';
  if (params.length > 3 || (!isRange && third !== undefined)) return null;
  const [end, given] = isRange ? [second, third] : [null, second];
  const config = configOf(given, ['commitment']);
  if (config === undefined || !isSlot(start) || (end != null && !isSlot(end))) return null;
  const to = end == null ? start + MAX_SLOTS : (end as number);
  if (to < start || to - start > MAX_SLOTS) return null;
  const query = {
    from: start,
    to,
    limit: Number.MAX_SAFE_INTEGER,
    commitment: commitmentOf(config),
    tenant: held.tenant,
  };
  return listAnswer(await held.joined.slots(query), (list) => JSON.stringify(list.slots));
}

async function getBlocksWithLimit(
  { joined, tenant }: HeldHistory,
  [start, limit, given]: readonly unknown[],
): Promise<KeptAnswer | null> {
  const config = configOf(given, ['commitment']);
  if (config === undefined || !isSlot(start) || !isSlot(limit) || limit < 1 || limit > MAX_SLOTS) return null;
  const query = { from: start, to: Number.MAX_SAFE_INTEGER, limit, commitment: commitmentOf(config), tenant };
  return listAnswer(await joined.slots(query), (list) => JSON.stringify(list.slots));
}

/** A list with the slot that it begins at, if nobody has older ones. Errors: -32002 where a part is missing. */
function listAnswer<L extends { readonly end: ListEnd }>(list: L | null, show: (list: L) => string): KeptAnswer | null {
  if (list === null) return null;
  const { end } = list;
  if (end.kind === 'missing')
    throw new RpcError('unavailable', {
      details: `The list is not complete: ${end.reason}${end.below < Number.MAX_SAFE_INTEGER ? ` (what is below slot ${end.below} is missing)` : ''}`,
      retryAfterS: 1,
    });
  const resultText = show(list);
  return end.kind === 'pruned' && end.slot !== null && end.slot > 1
    ? { resultText, headers: { 'x-first-slot': String(end.slot) } }
    : { resultText };
}

async function getBlockTime(held: HeldHistory, [slot]: readonly unknown[]): Promise<string | null> {
  if (!(await hasBlock(held, slot, 'confirmed'))) return null;
  const time = (await held.past.header(slot as number))?.blockTime ?? null;
  return time === null ? null : String(time);
}

const TRANSACTION_MEMBERS = ['encoding', 'commitment', 'maxSupportedTransactionVersion', 'minContextSlot'];

async function getTransaction(held: HeldHistory, [signature, given]: readonly unknown[]): Promise<string | null> {
  const config = configOf(typeof given === 'string' ? { encoding: given } : given, TRANSACTION_MEMBERS);
  const options = config === undefined ? undefined : showOptions(config);
  if (config === undefined || options === undefined) return null;
  if (!(await includes(held, config['minContextSlot'], commitmentOf(config)))) return null;
  const found = await heldTransaction(held, signature, commitmentOf(config));
  if (found === null) return null;
  const entry = showEntry(found.text, options);
  if (entry === null) return null;
  const { meta, transaction, version } = entry;
  const head = `{"blockTime":${found.header.blockTime},"meta":${meta},"slot":${found.slot},"transaction":${transaction}`;
  return `${head},"transactionIndex":${found.index}${version === null ? '' : `,"version":${version}`}${moreOf(entry)}}`;
}

const ADDRESS_MEMBERS = ['limit', 'before', 'until', 'commitment', 'minContextSlot'];

async function getSignaturesForAddress(
  { joined, tenant }: HeldHistory,
  [address, given]: readonly unknown[],
): Promise<KeptAnswer | null> {
  const config = configOf(given, ADDRESS_MEMBERS);
  if (config === undefined || typeof address !== 'string' || decode32(address) === null) return null;
  const { limit: most, before = null, until = null, minContextSlot = null } = config;
  const limit = most ?? MAX_SIGNATURES;
  if (!isSlot(limit) || limit < 1 || limit > MAX_SIGNATURES) return null;
  if (!isCursor(before) || !isCursor(until) || !(minContextSlot === null || isSlot(minContextSlot))) return null;
  const query = { address, commitment: commitmentOf(config), before, until, limit, minContextSlot, tenant };
  return listAnswer(await joined.signatures(query), ({ rows }) => `[${rows.map(({ text }) => text).join()}]`);
}

/** A signature, or none. */
const isCursor = (value: unknown): value is string | null =>
  value === null || (typeof value === 'string' && value.length <= 88 && decode(value)?.length === 64);

const MIN_CONTEXT_SLOT = -32016;

/** The newest held slot; as of a node that hears nothing. */
async function newestSlot(held: HeldHistory, params: readonly unknown[]): Promise<number | KeptAnswer | null> {
  const config = configOf(params[0], ['commitment', 'minContextSlot']);
  if (config === undefined || params.length > 1) return null;
  const { minContextSlot: least = null } = config;
  if (!(least === null || isSlot(least))) return null;
  const slot = ceilingOf(await held.joined.heads(held.tenant), commitmentOf(config));
  if (slot < 0) return null;
  if (least === null || least <= slot) return slot;
  const message = 'Minimum context slot has not been reached';
  return { errorText: JSON.stringify({ code: MIN_CONTEXT_SLOT, message, data: { contextSlot: slot } }) };
}

async function getSlot(held: HeldHistory, params: readonly unknown[]): Promise<string | KeptAnswer | null> {
  const slot = await newestSlot(held, params);
  return typeof slot === 'number' ? String(slot) : slot;
}

async function getBlockHeight(held: HeldHistory, params: readonly unknown[]): Promise<string | KeptAnswer | null> {
  const slot = await newestSlot(held, params);
  if (typeof slot !== 'number') return slot;
  const height = (await held.past.header(await held.past.newestBelow(slot)))?.blockHeight ?? null;
  return height === null ? null : String(height);
}
