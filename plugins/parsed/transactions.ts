/** Transactions of the main chain by signature, from the ledger or else from an upstream, and what answers show of them. */
import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { decode } from '../../src/lib/base58.ts';
import { stringify } from '../../src/lib/json.ts';
import {
  type CallContext,
  type ChainReader,
  codeOf,
  type Log,
  messageOf,
  type Random,
  RequestError,
} from '../../src/plugin/plugin.ts';
import type { KeyTable, NormalTransaction } from '../../src/ports/block.ts';
import type { Commitment } from '../../src/ports/chain.ts';
import type { LedgerReader } from '../../src/ports/ledger.ts';
import { decodeEntries } from '../../src/solana/decode/decode-block.ts';
import { writesInterface } from '../../src/solana/idl/idl-accounts.ts';
import { type ParseParts, parseTransaction } from '../../src/solana/idl/parse-transaction.ts';
import { showEntry, type TransactionEncoding, withStatus } from '../../src/solana/show-transaction.ts';
import type { ParsedConfig } from './config.ts';
import type { Interfaces, Learned, OwnOf } from './interfaces.ts';

export interface Asker extends Pick<CallContext, 'signal' | 'tenant'> {
  /** Whose own interfaces are preferred; absent or null: nobody's. */
  readonly project?: string | null;
}

export type RawForm = 'none' | 'json' | 'jsonParsed' | 'base64';

/** A transaction with what is shown of it. */
export interface Found {
  readonly signature: string;
  readonly slot: number;
  /** Unix seconds. */
  readonly blockTime: number | null;
  readonly tx: NormalTransaction;
  readonly keys: KeyTable;
  /** JSON text with the members `transaction` (in any encoding), `meta` and `version`. */
  text(): Promise<Buffer>;
}

interface SourceParts {
  /** Set when the plugin starts. */
  readonly chain: () => ChainReader | null;
  readonly ledger: () => LedgerReader | null;
  readonly random: Random;
  readonly log: Log;
  readonly config: Pick<ParsedConfig, 'concurrency' | 'upstreamTimeoutMs'>;
}

/** Nodes refuse a version above the newest one. */
const MOST_VERSION = 1;
const SEED_BYTES = 32;

export type FetchTransactions = (
  signatures: readonly string[],
  commitment: Commitment,
  asker: Asker,
) => Promise<ReadonlyMap<string, Found | UnreadableTransaction | null>>;

/** The chain has the transaction, in a form that cannot be decoded. */
class UnreadableTransaction extends Error {}

/** Fetches transactions; null for those that the chain does not have. Errors: RequestError 503, else those of `ChainReader.call`. */
export function createFetch({ chain, ledger, random, log, config }: SourceParts): FetchTransactions {
  async function fromLedger(signature: string, commitment: Commitment): Promise<Found | null> {
    const kept = ledger();
    if (kept === null) return null;
    try {
      const place = await kept.find(decode(signature)!);
      if (place === null || (commitment === 'finalized' && place.slot > kept.finalSlot)) return null;
      const found = await kept.transaction(place);
      if (found === null) return null;
      const { transactions, keys } = found.block();
      const { slot, header } = found;
      return { signature, slot, blockTime: header.blockTime, tx: transactions[0]!, keys, text: async () => found.text };
    } catch (error) {
      log.debug({ error: messageOf(error) }, 'the ledger cannot answer; an upstream is asked');
      return null;
    }
  }

  async function fromUpstream(signature: string, commitment: Commitment, asker: Asker) {
    const options = { encoding: 'base64', commitment, maxSupportedTransactionVersion: MOST_VERSION };
    const text = await callText(chain(), 'getTransaction', [signature, options], {
      ...asker,
      timeoutMs: config.upstreamTimeoutMs,
    });
    if (text === 'null') return null;
    const answer = JSON.parse(text) as { readonly slot: number; readonly blockTime?: number | null };
    try {
      const { transactions, keys } = decodeEntries(answer.slot, [answer], Uint8Array.from(random.bytes(SEED_BYTES)));
      return {
        ...{ signature, slot: answer.slot, blockTime: answer.blockTime ?? null, tx: transactions[0]!, keys },
        text: async () => Buffer.from(text),
      };
    } catch (error) {
      return new UnreadableTransaction('the transaction cannot be decoded', { cause: error });
    }
  }

  return async (signatures, commitment, asker) => {
    const found = new Map<string, Found | UnreadableTransaction | null>();
    const work = new Set(signatures).values();
    const worker = async (): Promise<void> => {
      for (const signature of work)
        found.set(
          signature,
          (await fromLedger(signature, commitment)) ?? (await fromUpstream(signature, commitment, asker)),
        );
    };
    await Promise.all(Array.from({ length: Math.min(config.concurrency, signatures.length) }, worker));
    return found;
  };
}

/** What `createInterfaces` asks of transactions. What an upstream does not have, or nobody can decode, may be a change. */
export function createMentions(fetch: FetchTransactions) {
  return async (signatures: readonly string[], program: string, asker: Asker): Promise<ReadonlySet<string>> => {
    const found = await fetch(signatures, 'confirmed', asker);
    return new Set(
      Array.from(found).flatMap(([signature, one]) =>
        one === null || one instanceof UnreadableTransaction || writesInterface(one, program) ? [] : [signature],
      ),
    );
  };
}

/** Errors: RequestError 503 when the upstream refuses, else those of `ChainReader.callText`. */
async function callText(
  chain: ChainReader | null,
  ...[method, params, options]: Parameters<ChainReader['callText']>
): Promise<string> {
  if (chain === null) throw new RequestError(503, 'Service unavailable: no Solana upstream is configured');
  try {
    return await chain.callText(method, params, options);
  } catch (error) {
    if (codeOf(error) !== 'CHAIN_RPC_ERROR') throw error;
    // A refusal of the upstream is not an answer: nothing is known.
    throw new RequestError(503, `Service unavailable: the Solana upstream refused ${method}`, { cause: error });
  }
}

/** Programs whose interfaces a transaction needs. */
function programsOf({ tx, keys }: Pick<Found, 'tx' | 'keys'>): readonly string[] {
  const positions = new Set(tx.instructions.map(({ programIndex }) => programIndex));
  for (const { instructions } of tx.innerInstructions)
    for (const { programIndex } of instructions) positions.add(programIndex);
  return Array.from(positions, (at) => tx.keys[at]).flatMap((id) => (id === undefined ? [] : [keys.base58(id)]));
}

export interface ElementParts {
  readonly interfaces: Pick<Interfaces, 'learn'>;
  readonly ownOf: OwnOf;
  readonly words: ParseParts['words'];
}

/** Reads the interfaces that all of these transactions need. */
function learnFor(found: readonly Found[], parts: ElementParts, asker: Asker): Promise<Learned> {
  const newest = new Map<string, number>();
  for (const one of found)
    for (const program of programsOf(one)) newest.set(program, Math.max(newest.get(program) ?? 0, one.slot));
  return learnAs(newest, parts, asker);
}

/** The interfaces as the caller sees them. Errors: those of `Interfaces.learn`. */
export async function learnAs(
  newestSlots: ReadonlyMap<string, number>,
  { interfaces, ownOf }: ElementParts,
  asker: Asker,
): Promise<Learned> {
  const learned = await interfaces.learn(newestSlots, asker);
  const own = asker.project == null ? null : await ownOf(asker.project);
  return own === null ? learned : learned.with(own);
}

interface Wanted {
  readonly signature: string;
  /** `null`: the chain does not have it. */
  readonly found: Found | UnreadableTransaction | null;
}

/** About 670 KB for each of a hundred elements. */
export const MAX_ANSWER_BYTES = 64 * 1_024 * 1_024;

/**
 * Elements of an answer as JSON texts, in order. A signature that is given twice is parsed once. Errors: those of `Interfaces.learn`, and
 * RequestError 400 for an answer above `MAX_ANSWER_BYTES`, charged because the work is done.
 */
export async function elementTexts(
  wanted: readonly Wanted[],
  rawForm: RawForm,
  parts: ElementParts,
  asker: Asker,
): Promise<readonly string[]> {
  const readable = wanted.map(({ found }) => found).filter((one): one is Found => one !== null && 'tx' in one);
  const { find } = await learnFor(readable, parts, asker);
  const bySignature = new Map<string, { readonly text: string; readonly bytes: number }>();
  const texts: string[] = [];
  let total = 0;
  for (const { signature, found } of wanted) {
    let element = bySignature.get(signature);
    if (element === undefined) {
      await pause(asker);
      const text = await elementText(signature, found, rawForm, { find, words: parts.words });
      element = { text, bytes: Buffer.byteLength(text) };
      bySignature.set(signature, element);
    }
    total += element.bytes;
    if (total > MAX_ANSWER_BYTES)
      throw new RequestError(400, `the answer has more than ${MAX_ANSWER_BYTES} bytes; ask for fewer transactions`, {
        isCharged: true,
      });
    texts.push(element.text);
  }
  return texts;
}

/** Between parts of long work: other calls have their turn, and work that nobody waits for ends. Errors: the reason of the signal. */
export async function pause({ signal }: Asker): Promise<void> {
  await yieldToOthers();
  signal.throwIfAborted();
}

/** An element of an answer as JSON text. */
async function elementText(
  signature: string,
  found: Wanted['found'],
  rawForm: RawForm,
  parts: ParseParts,
): Promise<string> {
  if (found === null) return failed(signature, 'transaction_not_found', 'transaction not found');
  if (found instanceof UnreadableTransaction) return failed(signature, 'parse_failed', found.message);
  const { tx, keys, slot, blockTime } = found;
  const parsed = parseTransaction(tx, { slot, blockTime, keys }, parts);
  const raw = rawForm === 'none' ? '' : `,"rawTransaction":${await rawText(found, rawForm)}`;
  return `{"signature":"${signature}","parserStatus":"OK","parsed":${stringify(parsed)}${raw}}`;
}

const failed = (signature: string, code: string, message: string): string =>
  JSON.stringify({ signature, parserStatus: 'ERROR', parserError: { code, message } });

/** In the shape of `getTransaction`. */
async function rawText({ slot, blockTime, text }: Found, encoding: TransactionEncoding): Promise<string> {
  const shown = showEntry(await text(), { encoding, details: 'full', maxVersion: MOST_VERSION });
  if (shown === null) return 'null';
  const { meta, transaction, version } = shown;
  const head = `{"blockTime":${blockTime},"meta":${withStatus(meta)},"slot":${slot},"transaction":${transaction}`;
  return `${head}${version === null ? '' : `,"version":${version}`}}`;
}
