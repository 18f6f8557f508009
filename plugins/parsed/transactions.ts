/** What answers show of transactions: their parts in words, by the interfaces that were valid in their slots. */
import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { stringify } from '../../src/lib/json.ts';
import { RequestError } from '../../src/plugin/plugin.ts';
import { type ParsedTransaction, type ParseParts, parseTransaction } from '../../src/solana/idl/parse-transaction.ts';
import { showEntryAsKept, type TransactionEncoding, withStatus } from '../../src/solana/show-transaction.ts';
import { CostlyInterface } from './costs.ts';
import { MAX_VERSION, type ProjectAsker, type TransactionWithKeys, UnreadableTransaction } from './fetch.ts';
import type { Interfaces, Learned, OwnOf } from './interfaces/index.ts';

export type RawForm = 'none' | 'json' | 'jsonParsed' | 'base64';

/** Programs whose interfaces a transaction needs. */
function programsOf({ tx, keys }: Pick<TransactionWithKeys, 'tx' | 'keys'>): readonly string[] {
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
function learnFor(wanted: readonly RequestedTransaction[], parts: ElementParts, asker: ProjectAsker): Promise<Learned> {
  const [newest, oldest] = [new Map<string, number>(), new Map<string, number>()];
  const readable = wanted
    .map(({ found }) => found)
    .filter((one): one is TransactionWithKeys => one !== null && 'tx' in one);
  for (const one of readable)
    for (const program of programsOf(one)) {
      newest.set(program, Math.max(newest.get(program) ?? 0, one.slot));
      oldest.set(program, Math.min(oldest.get(program) ?? one.slot, one.slot));
    }
  return learnAs(newest, parts, asker, oldest);
}

/** The interfaces as the caller sees them. Errors: those of `Interfaces.learn`. */
export async function learnAs(
  newestSlots: ReadonlyMap<string, number>,
  { interfaces, ownOf }: ElementParts,
  asker: ProjectAsker,
  oldestSlots = newestSlots,
): Promise<Learned> {
  const learned = await interfaces.learn(newestSlots, asker, oldestSlots);
  const own = asker.project == null ? null : await ownOf(asker.project);
  return own === null ? learned : learned.with(own);
}

export type Element =
  | { readonly signature: string; readonly parserStatus: 'OK'; readonly parsed: ParsedTransaction }
  | {
      readonly signature: string;
      readonly parserStatus: 'ERROR';
      readonly parserError: { readonly code: string; readonly message: string };
    };

interface RequestedTransaction {
  readonly signature: string;
  /** `null`: the chain does not have it. */
  readonly found: TransactionWithKeys | UnreadableTransaction | null;
}

/** The element of one transaction. Errors: those of `Interfaces.learn`. */
export async function readElement(
  wanted: RequestedTransaction,
  parts: ElementParts,
  asker: ProjectAsker,
): Promise<Element> {
  const { find } = await learnFor([wanted], parts, asker);
  return elementOf(wanted.signature, wanted.found, { find, words: parts.words });
}

/** About 670 KB for each of a hundred elements. */
export const MAX_ANSWER_BYTES = 64 * 1_024 * 1_024;

/**
 * Elements of an answer as JSON texts, in order. A signature that is given twice is parsed once. Errors: those of `Interfaces.learn`, and
 * RequestError 400 for an answer above `MAX_ANSWER_BYTES`, charged because the work is done.
 */
export async function elementTexts(
  wanted: readonly RequestedTransaction[],
  rawForm: RawForm,
  parts: ElementParts,
  asker: ProjectAsker,
): Promise<readonly string[]> {
  const { find } = await learnFor(wanted, parts, asker);
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
export async function pause({ signal }: ProjectAsker): Promise<void> {
  await yieldToOthers();
  signal.throwIfAborted();
}

/** An element of an answer as JSON text. */
async function elementText(
  signature: string,
  found: RequestedTransaction['found'],
  rawForm: RawForm,
  parts: ParseParts,
): Promise<string> {
  const element = elementOf(signature, found, parts);
  const needsRaw = rawForm !== 'none' && element.parserStatus === 'OK';
  return elementJson(
    element,
    needsRaw ? `,"rawTransaction":${await rawText(found as TransactionWithKeys, rawForm)}` : '',
  );
}

/** An element as JSON text; `more`: further members, each with a comma before it. */
export function elementJson(element: Element, more = ''): string {
  if (element.parserStatus === 'ERROR') return JSON.stringify(element);
  const { signature, parsed } = element;
  const instructions = parsed.instructions.map(({ call: _, ...shown }) => shown);
  return `{"signature":"${signature}","parserStatus":"OK","parsed":${stringify({ ...parsed, instructions })}${more}}`;
}

function elementOf(signature: string, found: RequestedTransaction['found'], parts: ParseParts): Element {
  const failed = (code: string, message: string): Element => ({
    signature,
    parserStatus: 'ERROR',
    parserError: { code, message },
  });
  if (found === null) return failed('transaction_not_found', 'transaction not found');
  if (found instanceof UnreadableTransaction) return failed('parse_failed', found.message);
  const { tx, keys, slot, blockTime } = found;
  try {
    return { signature, parserStatus: 'OK', parsed: parseTransaction(tx, { slot, blockTime, keys }, parts) };
  } catch (error) {
    if (!(error instanceof CostlyInterface)) throw error;
    return failed('interface_too_costly', `${error.message} (${error.details})`);
  }
}

/** In the shape of `getTransaction`. */
async function rawText({ slot, blockTime, text }: TransactionWithKeys, encoding: TransactionEncoding): Promise<string> {
  const shown = showEntryAsKept(await text(), { encoding, details: 'full', maxVersion: MAX_VERSION, rewards: true });
  if (shown === null) return 'null';
  const { meta, transaction, version } = shown;
  const head = `{"blockTime":${blockTime},"meta":${withStatus(meta)},"slot":${slot},"transaction":${transaction}`;
  return `${head}${version === null ? '' : `,"version":${version}`}}`;
}
