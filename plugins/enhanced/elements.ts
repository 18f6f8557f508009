import { lazy } from '../../src/lib/lazy.ts';
import {
  type CallContext,
  type ChainReader,
  type Clock,
  codeOf,
  type Log,
  type Metrics,
} from '../../src/plugin/plugin.ts';
import { RequestError, RpcError } from '../../src/plugin/request.ts';
import type { Tenant } from '../../src/ports/access.ts';
import type { KeptAnswers } from '../../src/ports/address-history.ts';
import type { NormalTransaction } from '../../src/ports/block.ts';
import type { Commitment } from '../../src/ports/chain.ts';
import type { Random } from '../../src/ports/clock.ts';
import type { PluginParsers } from '../../src/ports/parsers.ts';
import type { TokenFacts, TokenNames } from '../../src/ports/tokens.ts';
import { decodeEntries } from '../../src/solana/decode/decode-block.ts';
import {
  contributedParser,
  type EnhanceParts,
  type ReadTransaction,
  readTransaction,
} from '../../src/solana/parsers/enhance.ts';
import type { ParserBlock } from '../../src/solana/parsers/parser.ts';
import { PARSERS } from '../../src/solana/parsers/registry.ts';

export interface Elements {
  /** Classifies a transaction. */
  read(fetched: ReadableTransaction): ReadTransaction;
  /** The elements, in order, with the names found within `namesTimeoutMs`. */
  write(read: readonly ReadTransaction[], tenant: Tenant): Promise<readonly unknown[]>;
}

interface ElementsParts {
  readonly config: { readonly namesTimeoutMs: number };
  readonly log: Log;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly book: PluginParsers | null;
  readonly facts: TokenFacts | null;
  readonly names: TokenNames | null;
}

/** Limit of the service per call. */
const MINTS_PER_LOOK_UP = 100;

export function createElements({ config, log, metrics, book, facts, names }: ElementsParts): Elements {
  const faults = metrics.counter('parser_errors_total', 'transactions that a parser failed to read', ['parser']);
  const parts = lazy(
    (): EnhanceParts => ({
      names,
      ...(book === null ? {} : { options: book.options }),
      parsers: [...(book?.all() ?? []).map(contributedParser), ...PARSERS],
      onFault(parser, signature, error) {
        faults.with(parser).add();
        log.warn({ parser, signature, err: error }, 'a parser failed');
      },
    }),
  );

  async function learnNames(mints: readonly string[], tenant: Tenant): Promise<void> {
    if (facts === null) return;
    const unknown = mints.filter((mint) => facts.peek(mint) === undefined).slice(0, MINTS_PER_LOOK_UP);
    if (unknown.length === 0) return;
    // Without the name the element contains the address.
    await facts.lookUp(unknown, { tenant, timeoutMs: config.namesTimeoutMs }).catch(() => undefined);
  }

  return {
    read: ({ transaction, block }) => readTransaction(transaction, block, parts()),
    async write(read, tenant) {
      await learnNames([...new Set(read.flatMap(({ mints }) => mints))], tenant);
      return read.map((one) => inHostedOrder(one.element()));
    },
  };
}

/** Members of all objects of an element, in the order of the hosted answers. One list serves all objects. */
const ORDER = `description type source account amount fee feePayer signature slot timestamp
fromTokenAccount toTokenAccount fromUserAccount toUserAccount tokenAmount mint tokenStandard
tokenTransfers nativeTransfers nativeBalanceChange tokenBalanceChanges accountData transactionError
accounts data programId innerInstructions instructions events`;

const NESTED: Readonly<Record<string, string>> = {
  nativeTransfers: 'fromUserAccount toUserAccount amount',
  nativeFees: 'account fromUserAccount toUserAccount amount',
  tokenBalanceChanges: 'userAccount tokenAccount rawTokenAmount mint',
  tokenInputs:
    'userAccount tokenAccount rawTokenAmount fromTokenAccount toTokenAccount fromUserAccount toUserAccount tokenAmount mint tokenStandard',
  tokenOutputs:
    'userAccount tokenAccount rawTokenAmount fromTokenAccount toTokenAccount fromUserAccount toUserAccount tokenAmount mint tokenStandard',
  tokenFees:
    'userAccount tokenAccount rawTokenAmount fromTokenAccount toTokenAccount fromUserAccount toUserAccount tokenAmount mint tokenStandard',
  rawTokenAmount: 'tokenAmount decimals',
  nft: 'description type source amount fee feePayer signature slot timestamp saleType buyer seller staker nfts',
  swap: 'nativeInput nativeOutput tokenInputs tokenOutputs nativeFees tokenFees innerSwaps',
  innerSwaps: 'tokenInputs tokenOutputs tokenFees nativeFees programInfo',
  programInfo: 'source account programName instructionName',
  compressed:
    'type treeId leafIndex seq assetId instructionIndex innerInstructionIndex newLeafOwner oldLeafOwner newLeafDelegate oldLeafDelegate treeDelegate metadata updateArgs',
  metadata:
    'name symbol uri sellerFeeBasisPoints primarySaleHappened isMutable editionNonce tokenStandard collection uses tokenProgramVersion creators',
  creators: 'address verified share',
};

/** Returns a copy with the members in the order of the hosted API; additional members come last. */
function inHostedOrder(value: unknown): unknown {
  return ordered(value, ORDER);
}

function ordered(value: unknown, order: string): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => ordered(item, order));
  const names = order.split(/\s+/);
  const rank = (name: string): number => {
    const at = names.indexOf(name);
    return at < 0 ? names.length : at;
  };
  const members = Object.entries(value).sort(([left], [right]) => rank(left) - rank(right));
  return Object.fromEntries(members.map(([name, member]) => [name, ordered(member, NESTED[name] ?? ORDER)]));
}

/** A transaction with the parts of its block that are needed to read it. */
export interface ReadableTransaction {
  readonly transaction: NormalTransaction;
  readonly block: ParserBlock;
}

export interface SignatureRow {
  readonly signature: string;
  readonly slot: number;
  /** Unix seconds. */
  readonly blockTime?: number | null;
}

interface PageOptions {
  readonly before: string | null;
  readonly until: string | null;
  readonly limit: number;
  readonly commitment: Commitment;
  /** Slot of `before`: a node that has not come so far does not know it; null without one, or when it is unknown. */
  readonly minSlot: number | null;
}

/** Signal and tenant of a chain call. */
export type Asker = Pick<CallContext, 'signal' | 'tenant'>;

/** Transactions of the main chain. Errors: RequestError 503 when the upstream refuses, else those of `ChainReader.call`. */
export interface Transactions {
  /** In the requested order; null for a transaction that the chain does not have. */
  fetch(
    signatures: readonly string[],
    commitment: Commitment,
    asker: Asker,
  ): Promise<readonly (ReadableTransaction | null)[]>;
  /** The newest signatures of an address, newest first. Errors: also RequestError 503 where a part of them is missing. */
  page(address: string, options: PageOptions, asker: Asker): Promise<SignaturePage>;
}

export interface SignaturePage {
  readonly rows: readonly SignatureRow[];
  /** The list ends at this slot, because nobody has anything older; null: where the address begins, or not yet. */
  readonly firstSlot: number | null;
}

interface TransactionsParts {
  /** Set when the plugin starts. */
  readonly chain: () => ChainReader | null;
  /** What this daemon keeps of the chain; null without the plugin `history`. */
  readonly kept: KeptAnswers | null;
  readonly random: Random;
  readonly config: { readonly concurrency: number; readonly upstreamTimeoutMs: number };
}

interface RpcTransaction {
  readonly slot: number;
  readonly blockTime?: number | null;
}

const SEED_BYTES = 32;
/** Nodes refuse a version above the newest one. */
const MAX_VERSION = 1;

export function createTransactions({ chain, kept, random, config }: TransactionsParts): Transactions {
  /** What is kept, as a node answers it; null: an upstream has to answer. */
  async function keptAnswer(method: string, params: readonly unknown[], { tenant }: Asker) {
    try {
      const found = await kept?.answer({ method, params: () => JSON.stringify(params), tenant });
      return found === undefined || found === null || 'errorText' in found ? null : found;
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      throw new RequestError(503, `Service unavailable: ${error.details ?? error.message}`, { cause: error });
    }
  }

  function upstreams(): ChainReader {
    const reader = chain();
    if (reader === null) throw new RequestError(503, 'Service unavailable: no Solana upstream is configured');
    return reader;
  }

  const optionsOf = (asker: Asker) => ({ ...asker, timeoutMs: config.upstreamTimeoutMs });

  /** A list of an upstream, which says where its blocks begin if the list ends there. Errors: also RequestError 503. */
  async function listed(address: string, options: { readonly limit: number }, asker: Asker): Promise<SignaturePage> {
    const reader = upstreams();
    let only: string | undefined;
    const answeredBy = (upstream: string) => {
      only = upstream;
    };
    const how = { ...optionsOf(asker), archive: true };
    const rows = await refusedAs503(
      'getSignaturesForAddress',
      reader.call<readonly SignatureRow[]>('getSignaturesForAddress', [address, options], { ...how, answeredBy }),
    );
    if (rows.length >= options.limit) return { rows, firstSlot: null };
    // Another upstream may have more: it is asked of the one that gave the list, and after it, because nodes go on pruning.
    const first = await refusedAs503(
      'getFirstAvailableBlock',
      reader.call<number>('getFirstAvailableBlock', [], { ...how, ...(only === undefined ? {} : { only }) }),
    );
    return { rows, firstSlot: first > 1 ? first : null };
  }

  async function one(signature: string, commitment: Commitment, asker: Asker) {
    const options = { encoding: 'json', commitment, maxSupportedTransactionVersion: MAX_VERSION };
    const held = await keptAnswer('getTransaction', [signature, options], asker);
    // Text: a node that has pruned it answers null, and another one may have it.
    const text =
      held === null
        ? await refusedAs503(
            'getTransaction',
            upstreams().callText('getTransaction', [signature, options], optionsOf(asker)),
          )
        : held.resultText;
    const answer = JSON.parse(text) as RpcTransaction | null;
    return answer === null ? null : decodeFetched(answer, random);
  }

  return {
    async fetch(signatures, commitment, asker) {
      const found: (ReadableTransaction | null)[] = new Array(signatures.length).fill(null);
      const work = signatures.entries();
      const worker = async (): Promise<void> => {
        for (const [at, signature] of work) found[at] = await one(signature, commitment, asker);
      };
      await Promise.all(Array.from({ length: Math.min(config.concurrency, signatures.length) }, worker));
      return found;
    },
    async page(address, { before, until, limit, commitment, minSlot }, asker) {
      const options = {
        limit,
        commitment,
        ...(before && { before }),
        ...(until && { until }),
        ...(minSlot === null ? {} : { minContextSlot: minSlot }),
      };
      const held = await keptAnswer('getSignaturesForAddress', [address, options], asker);
      if (held === null) return await listed(address, options, asker);
      const first = held.headers?.['x-first-slot'];
      return {
        rows: JSON.parse(held.resultText) as readonly SignatureRow[],
        firstSlot: first === undefined ? null : Number(first),
      };
    },
  };
}

/** Errors: CHAIN_BAD_BLOCK when the answer is inconsistent. */
function decodeFetched(answer: RpcTransaction, random: Random): ReadableTransaction {
  const { transactions, keys } = decodeEntries(answer.slot, [answer], Uint8Array.from(random.bytes(SEED_BYTES)));
  return { transaction: transactions[0]!, block: { slot: answer.slot, blockTime: answer.blockTime ?? null, keys } };
}

/** A refusal of the upstream is not an answer: nothing is known. Other errors keep their texts. */
async function refusedAs503<T>(method: string, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (codeOf(error) !== 'CHAIN_RPC_ERROR') throw error;
    throw new RequestError(503, `Service unavailable: the Solana upstream refused ${method}`, { cause: error });
  }
}
