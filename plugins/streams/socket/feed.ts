/** What a subscription over a websocket is sent of each block: whole notifications, each made once for all that want the same. */

import { decode32 } from '../../../src/lib/base58.ts';
import { objectMembers, parseExact, stringify } from '../../../src/lib/json.ts';
import { zstdFrame } from '../../../src/lib/zstd.ts';
import { type Clock, type Log, messageOf } from '../../../src/plugin/plugin.ts';
import type { ChainBlock, KeyTable, NormalTransaction } from '../../../src/ports/block.ts';
import type {
  ParsedBoard,
  ParsedDetails,
  ParsedMatch,
  ParsedTransactions,
  ParsedWanted,
} from '../../../src/ports/parsed-transactions.ts';
import { HIGHEST_WIRE_VERSION } from '../../../src/solana/decode/walk-wire.ts';
import { base64 } from '../../../src/solana/json-parsed/layout.ts';
import {
  memoOfWire,
  readWire,
  type ShownMeta,
  type ShownTransaction,
  showAccounts,
  showEntryAsKept,
  showTransaction,
} from '../../../src/solana/show-transaction.ts';
import { compileTransactionFilter, type FilterOptions } from '../filters.ts';
import { GrpcError } from '../grpc-server.ts';
import type { Board, BoardContent, Feed, UpdateBatch } from '../hub/index.ts';
import { rewardTextOf, SLOT_STATUS } from '../wire/updates.ts';
import { type SocketRequest, ZSTD } from './request.ts';

export interface SocketFeedOptions {
  readonly filters: FilterOptions;
  /** The newest final slot. */
  readonly root: () => number;
  readonly parsed: ParsedFeeds | null;
}

export interface SocketFeed {
  readonly feed: Feed;
  /** Bytes that its filter takes. */
  readonly filterBytes: number;
}

/** Notifications are joined to buffers of about this size. */
const BATCH_BYTES = 131_072;

/** Throws GrpcError for a filter that is not allowed. */
export function createSocketFeed(
  request: SocketRequest,
  project: string | null,
  options: SocketFeedOptions,
): SocketFeed {
  if (request.kind === 'parsed') {
    if (options.parsed === null) throw new GrpcError('unimplemented', 'transactions are not decoded here');
    const { programs, instructionNames, include, roles } = request.filter;
    const addresses = programs.length + instructionNames.length + include.length + roles.length;
    return {
      feed: options.parsed(request, project),
      filterBytes: PARSED_FILTER_BYTES + addresses * PARSED_ENTRY_BYTES,
    };
  }
  if (request.kind !== 'transaction') return { feed: feedOf(request, options), filterBytes: 0 };
  const { level } = request;
  const matcher = compileTransactionFilter(request.filter, options.filters);
  const form = formOf(request);
  const isFinal = level === 'finalized';
  const feed = contentOf(level, (block) => {
    const made = madeOf(block, `transaction ${isFinal} ${JSON.stringify(form)}`);
    return matcher.matching(block).map((tx) => made(tx.index, () => transactionNotice(block, tx, form, isFinal)));
  });
  return { feed, filterBytes: matcher.bytes };
}

function feedOf(request: Exclude<SocketRequest, { kind: 'transaction' | 'parsed' }>, options: SocketFeedOptions): Feed {
  const { level } = request;
  switch (request.kind) {
    case 'slot':
      return {
        level,
        content: () => [],
        slot({ slot, parentSlot: parent }, status) {
          if (status !== SLOT_STATUS.confirmed) return [];
          return join([notice('slot', `{"parent":${parent},"root":${options.root()},"slot":${slot}}`)]);
        },
      };
    case 'logs': {
      const { mentions, votes } = request;
      return contentOf(level, (block) => {
        const made = madeOf(block, 'logs');
        return mentioning(block, mentions)
          .filter((tx) => votes || !tx.isVote)
          .map((tx) => made(tx.index, () => logsNotice(block, tx)));
      });
    }
    case 'block': {
      const form = formOf(request);
      const name = `block ${request.mentions ?? 'all'} ${JSON.stringify(form)}`;
      return contentOf(level, (block) => {
        const chosen = mentioning(block, request.mentions);
        if (request.mentions !== null && chosen.length === 0) return [];
        return [madeOf(block, name)(0, () => blockNotice(block, chosen, form))];
      });
    }
    case 'account': {
      const { address } = request;
      return contentOf(level, (block) => {
        // Failed transactions write the accounts of their fee payers and nonces.
        const key = decode32(address);
        const id = key === null ? -1 : block.keys.find(key);
        const last = mentioning(block, address).findLast((tx) => isWritable(tx, tx.keys.indexOf(id)));
        return last === undefined ? [] : [notice('account', `{"slot":${block.slot},"transactionIndex":${last.index}}`)];
      });
    }
  }
}

/** What a filter of parsed transactions takes in memory, about, and each address or name of it. */
const PARSED_FILTER_BYTES = 1_024;
const PARSED_ENTRY_BYTES = 256;

type ParsedRequest = Extract<SocketRequest, { kind: 'parsed' }>;

/** Makes the feeds of parsed transactions. */
export type ParsedFeeds = (request: ParsedRequest, project: string | null) => Feed;

const TRIES = 6;
const RETRY_MS = 250;

/** Makes one board for each project, so that one whose interfaces take long lags and ends alone. */
export function createParsedFeeds(parsed: ParsedTransactions, { clock, log }: { clock: Clock; log: Log }): ParsedFeeds {
  const boards = new Map<string | null, Board>();
  const requests = new WeakMap<Feed, { readonly wanted: ParsedWanted; readonly details: ParsedDetails }>();

  /** Upstreams that give interfaces may fail for a moment, or be behind the block. */
  async function patiently<T>(slot: number, work: () => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await work();
      } catch (error) {
        if (tries === TRIES) throw error;
        log.debug({ slot, error: messageOf(error) }, 'interfaces of programs cannot be read; trying again');
        await clock.sleep(RETRY_MS * 2 ** (tries - 1));
      }
    }
  }

  const batchesOf = (slot: number, matches: readonly ParsedMatch[], details: ParsedDetails) =>
    join(matches.map((match) => notice('parsedTransaction', inSlot(slot, match.text(details)))));

  async function compare(
    board: ParsedBoard<Feed>,
    block: ChainBlock,
    isLive: boolean,
  ): Promise<ReadonlyMap<Feed, BoardContent>> {
    const decoded = new Map<Feed, number>();
    const problems = new Map<Feed, GrpcError>();
    const found = await patiently(block.slot, () => {
      decoded.clear();
      problems.clear();
      return board.match(block, {
        isLive,
        decoded: (feed, transactions) => decoded.set(feed, transactions),
        costly: (feed, reason) => problems.set(feed, new GrpcError('resourceExhausted', reason)),
      });
    });
    const made = new Map<Feed, BoardContent>();
    for (const feed of new Set([...decoded.keys(), ...found.keys(), ...problems.keys()])) {
      const matches = found.get(feed) ?? [];
      made.set(feed, {
        batches: batchesOf(block.slot, matches, requests.get(feed)!.details),
        searched: Math.max(0, (decoded.get(feed) ?? 0) - matches.length),
        problem: problems.get(feed) ?? null,
      });
    }
    return made;
  }

  function boardOf(project: string | null): Board {
    const existing = boards.get(project);
    if (existing !== undefined) return existing;
    const own = parsed.openBoard<Feed>();
    const feeds = new Set<Feed>();
    const board: Board = {
      add(feed) {
        feeds.add(feed);
        own.set(feed, requests.get(feed)!.wanted);
        boards.set(project, board);
      },
      remove(feed) {
        feeds.delete(feed);
        own.remove(feed);
        if (feeds.size === 0 && boards.get(project) === board) boards.delete(project);
      },
      content: (block) => compare(own, block, true),
    };
    boards.set(project, board);
    return board;
  }

  return ({ filter, details }, project) => {
    const wanted = { filter, project };
    const feed: Feed = {
      level: 'confirmed',
      board: boardOf(project),
      slot: () => [],
      async content(block) {
        const own = parsed.openBoard<Feed>();
        own.set(feed, wanted);
        const content = (await compare(own, block, false)).get(feed);
        if (content?.problem != null) throw content.problem;
        return content?.batches ?? [];
      },
    };
    requests.set(feed, { wanted, details });
    return feed;
  };
}

type Form = Pick<Extract<SocketRequest, { kind: 'block' }>, 'encoding' | 'details' | 'rewards' | 'maxVersion'>;

/** What decides about the text of a notification. */
const formOf = ({ encoding, details, rewards, maxVersion }: Form): Form => ({ encoding, details, rewards, maxVersion });

const contentOf = (level: Feed['level'], noticesOf: (block: ChainBlock) => readonly (Buffer | null)[]): Feed => ({
  level,
  content: (block) => join(noticesOf(block).filter((one) => one !== null)),
  slot: () => [],
});

const known = new WeakMap<ChainBlock, Map<string, (Buffer | null | undefined)[]>>();

/** Makes each notification of a block once; `name` tells what decides about its text. */
function madeOf(block: ChainBlock, name: string) {
  let all = known.get(block);
  if (all === undefined) {
    all = new Map();
    known.set(block, all);
  }
  const list = all.get(name) ?? [];
  all.set(name, list);
  return (index: number, make: () => Buffer | null): Buffer | null => {
    let one = list[index];
    if (one === undefined) {
      one = make();
      list[index] = one;
    }
    return one;
  };
}

/** The transactions that have the address among their keys; all without one. */
function mentioning(block: ChainBlock, address: string | null): readonly NormalTransaction[] {
  if (address === null) return block.transactions;
  const key = decode32(address);
  const id = key === null ? -1 : block.keys.find(key);
  return id < 0 ? [] : block.transactions.filter(({ keys }) => keys.includes(id));
}

// ------------------------------------------------------------------------------------------------------ notifications

/** The number of the subscription differs by client; each puts its own in this place. */
export function placeOfNumber(notification: Buffer): { readonly start: number; readonly end: number } {
  const start = notification.indexOf(NUMBER) + NUMBER.length - 1;
  return { start, end: start + 1 };
}

const NUMBER = '"subscription":0';

const notice = (kind: string, result: string): Buffer =>
  Buffer.from(`{"jsonrpc":"2.0","method":"${kind}Notification","params":{${NUMBER},"result":${result}}}`);

const inSlot = (slot: number, value: string): string => `{"context":{"slot":${slot}},"value":${value}}`;

const accepts = (maxVersion: number | null, { version }: NormalTransaction): boolean =>
  version === 'legacy' || (maxVersion !== null && version <= maxVersion);

/** Null: the client does not take the version of the transaction. */
function transactionNotice(
  { slot, blockTime, keys }: ChainBlock,
  tx: NormalTransaction,
  form: Form,
  isFinal: boolean,
): Buffer | null {
  const { details, maxVersion } = form;
  const place = `"signature":"${tx.signature}","slot":${slot},"transactionIndex":${tx.index}`;
  if (details === 'none') return notice('transaction', `{${place}}`);
  if (details === 'signatures') {
    const memo = JSON.stringify(memoText(tx, keys));
    const status = isFinal ? 'finalized' : 'confirmed';
    const facts = `"err":${JSON.stringify(tx.error)},"memo":${memo},"blockTime":${blockTime},"confirmationStatus":"${status}"`;
    return notice('transaction', `{${place},${facts}}`);
  }
  if (!accepts(maxVersion, tx)) return null;
  const text = transactionMembers(tx, form);
  return text === null ? null : notice('transaction', `{"transaction":${text},${place}}`);
}

const memoText = (tx: NormalTransaction, keys: KeyTable) =>
  memoOfWire(
    {
      instructions: tx.instructions.map(({ programIndex, data }) => ({
        programIdIndex: programIndex,
        accounts: [],
        data,
      })),
    },
    Array.from(tx.keys, (id) => keys.base58(id)),
  );

/** Null for a transaction of which not everything was read: it is shown as the node sent it. */
function shownOf(tx: NormalTransaction): ShownTransaction | null {
  if (tx.wire === null || tx.fault !== null || (tx.version !== 'legacy' && tx.version > HIGHEST_WIRE_VERSION))
    return null;
  const meta = parseExact(tx.metaText.toString()) as Record<string, unknown>;
  // Nodes send it; blocks from a stream may lack it.
  meta['status'] ??= tx.error === null ? { Ok: null } : { Err: tx.error };
  return { transaction: readWire(tx.wire), meta: meta as ShownMeta };
}

/** The members `meta`, `transaction` and `version`, as nodes show them. */
function transactionMembers(tx: NormalTransaction, { details, encoding, rewards, maxVersion }: Form): string | null {
  const shown = shownOf(tx);
  if (shown === null) {
    const plainEncoding = encoding === ZSTD ? 'base64' : encoding;
    const kept = showEntryAsKept(tx.entryText, {
      details: details === 'accounts' ? 'accounts' : 'full',
      encoding: plainEncoding,
      maxVersion,
      rewards,
    });
    if (kept === null) return null;
    const version = kept.version === null ? '' : `,"version":${kept.version}`;
    return `{"meta":${kept.meta},"transaction":${kept.transaction}${version}}`;
  }
  if (details === 'accounts') return stringify(showAccounts(shown, { maxVersion, rewards }));
  if (encoding !== ZSTD) return stringify(showTransaction(shown, { encoding, maxVersion, rewards }));
  const plain = showTransaction(shown, { encoding: 'base64', maxVersion, rewards });
  return stringify({ ...plain, transaction: [base64(zstdFrame(tx.wire!)), ZSTD] });
}

/** By the header alone; nodes take back a few that no transaction can write. */
function isWritable(
  { header, keys: { length }, staticKeyCount, loadedWritableCount }: NormalTransaction,
  index: number,
): boolean {
  const { numRequiredSignatures, numReadonlySignedAccounts, numReadonlyUnsignedAccounts } = header;
  if (index < 0 || index >= length) return false;
  if (index < numRequiredSignatures) return index < numRequiredSignatures - numReadonlySignedAccounts;
  if (index < staticKeyCount) return index < staticKeyCount - numReadonlyUnsignedAccounts;
  return index < staticKeyCount + loadedWritableCount;
}

/** Null for a transaction that was not run: it has no logs. */
function logsNotice({ slot }: ChainBlock, tx: NormalTransaction): Buffer | null {
  const { metaText } = tx;
  const members = objectMembers(metaText) ?? [];
  const memberOf = (of: string) => {
    const member = members.find(({ name }) => name === of);
    return member === undefined ? 'null' : metaText.toString('utf8', member.start, member.end);
  };
  const logs = memberOf('logMessages');
  if (logs === 'null') return null;
  return notice('logs', inSlot(slot, `{"signature":"${tx.signature}","err":${memberOf('err')},"logs":${logs}}`));
}

function blockNotice(block: ChainBlock, chosen: readonly NormalTransaction[], form: Form): Buffer {
  const { slot } = block;
  const { details, rewards, maxVersion } = form;
  const isShown = details === 'full' || details === 'accounts';
  const refused = isShown ? chosen.find((tx) => !accepts(maxVersion, tx)) : undefined;
  const result = (value: string, err: string) =>
    notice('block', inSlot(slot, `{"block":${value},"err":${err},"slot":${slot}}`));
  if (refused !== undefined) return result('null', JSON.stringify({ UnsupportedTransactionVersion: refused.version }));
  const members: string[] = [];
  const add = (name: string, value: string | number | null) =>
    members.push(`"${name}":${typeof value === 'string' ? value : JSON.stringify(value)}`);
  add('blockHeight', block.blockHeight);
  add('blockTime', block.blockTime);
  add('blockhash', JSON.stringify(block.blockhash));
  add('parentSlot', block.parentSlot);
  add('previousBlockhash', JSON.stringify(block.previousBlockhash));
  const known = rewards ? rewardTextOf(block) : null;
  if (rewards) add('rewards', known?.rewards ?? 'null');
  if (known !== null && known.partitions !== null) add('numRewardPartitions', known.partitions);
  if (details === 'signatures') add('signatures', JSON.stringify(chosen.map(({ signature }) => signature)));
  if (isShown) {
    const texts = chosen.map((tx) => transactionMembers(tx, form));
    add('transactions', `[${texts.map((text) => text ?? 'null').join(',')}]`);
  }
  return result(`{${members.join(',')}}`, 'null');
}

/** Buffers of their own: a view would cross threads with all that is behind it. */
function join(notices: readonly Buffer[]): readonly UpdateBatch[] {
  const batches: UpdateBatch[] = [];
  for (let from = 0; from < notices.length; ) {
    let size = 0;
    let to = from;
    while (to < notices.length && (to === from || size < BATCH_BYTES)) size += notices[to++]!.length;
    const bytes = Buffer.allocUnsafeSlow(size);
    const ends = new Uint32Array(to - from);
    let at = 0;
    for (let number = from; number < to; number++) {
      at += notices[number]!.copy(bytes, at);
      ends[number - from] = at;
    }
    batches.push({ bytes, updates: to - from, messageBytes: size, ends });
    from = to;
  }
  return batches;
}
