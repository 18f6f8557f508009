import { RequestError } from '../../../src/kernel/request.ts';
import { codeOf } from '../../../src/lib/coded-error.ts';
import type { TokenMetadataConfig } from '../config.ts';
import type { FactsService } from '../facts/facts.ts';
import type { OffChainAnswer } from '../off-chain/document.ts';
import type { Documents } from '../off-chain/documents.ts';
import type { LoadRecords } from '../records/load-records.ts';
import { type TokenRecord, textsOf } from '../records/token-record.ts';
import type { TokenList } from '../token-list/token-list.ts';
import type { ChangedSlots } from '../watch/changed-slots.ts';
import type { Answers } from './answers.ts';
import { renderElement } from './element.ts';
import type { Question } from './read-body.ts';

export interface AnswerParts {
  /** Null: no upstream is configured. */
  readonly load: LoadRecords | null;
  readonly documents: Documents;
  readonly list: TokenList;
  readonly facts: FactsService;
  readonly answers: Answers;
  readonly changed: ChangedSlots;
  readonly config: TokenMetadataConfig;
}

/**
 * The elements of an answer as JSON texts, in the order of the question: at once where all are kept. Throws RequestError when the chain
 * cannot be asked at all.
 */
export function answer(question: Question, parts: AnswerParts): readonly string[] | Promise<readonly string[]> {
  const { mints, includeOffChain, disableCache } = question;
  const texts = new Map<string, string>();
  const missing: string[] = [];
  for (const mint of new Set(mints)) {
    const text = disableCache ? undefined : parts.answers.get(mint, includeOffChain);
    if (text === undefined) missing.push(mint);
    else texts.set(mint, text);
  }
  const inOrder = () => mints.map((mint) => texts.get(mint) ?? '');
  if (missing.length === 0) return inOrder();
  return make(missing, question, texts.size, parts).then((made) => {
    for (const [mint, text] of made) texts.set(mint, text);
    return inOrder();
  });
}

async function make(
  mints: readonly string[],
  { includeOffChain, disableCache }: Question,
  alreadyKnown: number,
  parts: AnswerParts,
): Promise<ReadonlyMap<string, string>> {
  const { config, documents, facts, answers, changed } = parts;
  if (parts.load === null) throw unavailable(undefined);
  const { records, failed } = await parts.load(mints, disableCache);
  const askable = [...records.values()].filter((record) => record.kind === 'mint' || record.error !== 'INVALID_PUBKEY');
  const [firstError] = failed.values();
  if (failed.size > 0 && failed.size === askable.length && alreadyKnown === 0) throw unavailable(firstError);
  facts.learn(records.values());

  const uris = includeOffChain ? [...records.values()].map(uriOf).filter((uri) => uri !== '') : [];
  const wait = { waitMs: config.offChain.batchTimeoutMs, fresh: disableCache };
  const found: ReadonlyMap<string, OffChainAnswer> = uris.length === 0 ? new Map() : await documents.get(uris, wait);
  const entry = await parts.list.entries();

  const texts = new Map<string, string>();
  for (const [mint, record] of records) {
    const document = found.get(uriOf(record)) ?? null;
    const text = renderElement({ record, document, listed: entry(mint), shareAsNumber: config.shareAsNumber });
    texts.set(mint, text);
    // What is missing may be there the next time.
    const isWhole = record.kind === 'mint' && isFirm(record) && (document === null || document.error === '');
    if (isWhole && changed.isCurrent(mint, record.slot))
      answers.set(mint, includeOffChain, text, record.readAtMs + config.accountTtlMs);
  }
  return texts;
}

const uriOf = (record: TokenRecord): string => (record.kind === 'mint' ? textsOf(record).uri : '');

const isFirm = ({ metadata }: TokenRecord & { readonly kind: 'mint' }): boolean =>
  metadata.kind !== 'none' || metadata.error !== 'TIMEOUT';

function unavailable(cause: unknown): RequestError {
  return codeOf(cause) === 'CHAIN_TIMEOUT'
    ? new RequestError(504, 'Gateway timeout', { cause })
    : new RequestError(503, 'Service unavailable', { cause, retryAfterS: 1, details: 'No Solana upstream answers' });
}
