import { type CodedError, codeOf } from '../lib/coded-error.ts';
import { isPlainObject } from '../lib/json.ts';
import type { RpcErrorObject } from '../lib/json-rpc.ts';

/**
 * What the error object of a Solana node or provider says. Sources: Agave `rpc-client-api/src/custom_error.rs`; the error pages of Helius,
 * QuickNode, Alchemy, Ankr, GetBlock, Chainstack, dRPC and Triton. Providers reuse codes of the node for limits of their own
 * (QuickNode -32007, -32003; others -32005), so that their texts count before those codes.
 */
export type NodeErrorMeaning =
  /** About the call: every node answers the same. */
  | 'answer'
  /** The call needs a higher `maxSupportedTransactionVersion`. */
  | 'version'
  /** The slot has no block. */
  | 'skipped'
  /** The slot has no block, or the node lost it: another node may have it. */
  | 'skipped-or-lost'
  /** The node has removed it, or keeps no history. */
  | 'no-history'
  /** The node has not come to the slot yet. */
  | 'not-yet'
  /** The node is behind the cluster, or reports that it is unhealthy. */
  | 'unhealthy'
  /** Too many requests for the moment. */
  | 'limited'
  /** The credits are used up, or the key is not accepted. */
  | 'exhausted'
  /** The node does not offer the method, or the plan does not include it. */
  | 'not-offered'
  /** The node does not keep the index that the call needs. */
  | 'no-index'
  /** The node failed, or took too long. */
  | 'fault'
  | 'unknown';

export interface NodeErrorRow {
  readonly meaning: NodeErrorMeaning;
  /** Codes that the row applies to; null: every code that no row before it took. */
  readonly codes: readonly number[] | null;
  /** Only for these methods; absent: for all. */
  readonly methods?: RegExp;
  /** Text that the message has to contain; null: any. */
  readonly text: RegExp | null;
  /** For documents: who sends it, and what it says. */
  readonly about: string;
}

const LIMITED =
  /rate.?limit|too many requests|requests?.limit (reached|exceeded)|(requests?|calls|credits|units) (per|\/) ?(second|sec|minute)|\b[rct]ps\b|\/(second|sec|s|minute) (request )?limit|throttl|concurren\w* (request )?limit|throughput|slow down|capacity (limit )?exceeded|exceeded its .{0,60}capacity|^ ?limit exceeded|(request|usage|throughput|compute units?) limit exceeded|exceeded .{0,30}(rps|request|rate) limit/i;
const EXHAUSTED =
  /max usage|(daily|monthly|24.?hours?) .{0,30}(limit|quota|capacity|usage)|quota (is |has been )?(exceeded|reached|exhausted)|(out of|insufficient|no more) (credits|compute units)|credits? .{0,20}(exhausted|used up|exceeded)|past due|payment required|(api.?key|access token|subscription|endpoint) .{0,30}(invalid|expired|disabled|suspended|inactive|not allowed|missing)|(invalid|missing|expired|unknown) (api.?key|access token|credentials)|unauthori[sz]ed|forbidden/i;
const NOT_OFFERED =
  /unsupported method|method .{0,60}(not (found|supported|available|allowed|enabled|included|whitelisted)|disabled|unavailable|does not exist|blocked)|(not (available|supported|included|allowed|enabled)|disabled|unavailable) .{0,40}(plan|tier|endpoint|method|subscription)|(paid|higher|dedicated|growth|business|pro|archive|upgraded?) (plan|tier|node)|upgrade (your|to)|add-?on/i;
const OF_THE_TRANSACTION =
  /simulation failed|signature verification fail|precompile verification fail|preflight|blockhash not found|blockhash expired|insufficient funds for (fee|rent)|invalid (signature|transaction|instruction)|already (been )?processed|failed to sanitize/i;

/** Read from the top: the first row that fits counts. */
export const NODE_ERRORS: readonly NodeErrorRow[] = [
  {
    meaning: 'answer',
    codes: [-32700, -32600, -32602],
    text: null,
    about: 'JSON-RPC: the call is malformed, or its parameters are',
  },
  {
    meaning: 'answer',
    codes: [-32006, -32013, -32017, -32018],
    text: null,
    about: 'Agave: precompile verification, signature length, epoch rewards are being paid, no epoch boundary',
  },
  { meaning: 'version', codes: [-32015], text: null, about: 'Agave: transaction version not supported by the call' },
  {
    meaning: 'answer',
    codes: null,
    text: OF_THE_TRANSACTION,
    about: 'every code: simulation failed, signature invalid, blockhash not found',
  },
  {
    meaning: 'no-index',
    codes: null,
    text: /secondary index|account.?index(es)? .{0,30}(disabled|not enabled|not available)/i,
    about: 'every code, Agave -32010: the program or key is excluded from the account indexes',
  },
  {
    meaning: 'exhausted',
    codes: null,
    text: EXHAUSTED,
    about:
      'every code: daily or monthly limit reached, credits used up, key not accepted (QuickNode -32003, Helius "max usage reached")',
  },
  {
    meaning: 'limited',
    codes: null,
    text: LIMITED,
    about:
      'every code: rate limited (QuickNode -32007 "50/second request limit reached", Chainstack -32005, Alchemy "compute units per second")',
  },
  {
    meaning: 'limited',
    codes: [-32429, 429, -429],
    text: null,
    about: 'Helius -32429; Triton, QuickNode, Alchemy, GetBlock 429: too many requests',
  },
  {
    meaning: 'exhausted',
    codes: [401, 402, 403, -32401, -32402, -32403, -32051, -32052],
    text: null,
    about: 'HTTP statuses as codes, and those of Helius and Ankr: key or plan refused',
  },
  {
    meaning: 'answer',
    codes: [-32002, -32003],
    methods: /^(send|simulate)/,
    text: null,
    about: 'Agave, when sending and simulating: preflight failure, signature verification failure',
  },
  { meaning: 'skipped', codes: [-32009], text: null, about: 'Agave: slot skipped, as long-term storage says' },
  {
    meaning: 'skipped-or-lost',
    codes: [-32007],
    text: null,
    about: 'Agave: slot skipped, or lost in a jump to a snapshot',
  },
  {
    meaning: 'no-history',
    codes: [-32001, -32008, -32011],
    text: null,
    about: 'Agave: block cleaned up, no snapshot, no transaction history',
  },
  {
    meaning: 'not-yet',
    codes: [-32004, -32014, -32016],
    text: null,
    about: 'Agave: block or its status not available yet, minimum context slot not reached',
  },
  { meaning: 'unhealthy', codes: [-32005], text: null, about: 'Agave: node is unhealthy, or behind by some slots' },
  { meaning: 'no-index', codes: [-32010], text: null, about: 'Agave: excluded from the account indexes' },
  {
    meaning: 'fault',
    codes: [-32012, -32019],
    text: null,
    about: 'Agave: the scan of accounts was aborted, long-term storage unreachable',
  },
  {
    meaning: 'not-offered',
    codes: [-32601, 404, 405, -32404, -32405],
    text: null,
    about: 'JSON-RPC: method not found; HTTP statuses as codes',
  },
  {
    meaning: 'unknown',
    codes: [-32603],
    text: /not found|does not exist/i,
    about: 'some providers of assets: there is no such asset',
  },
  {
    meaning: 'fault',
    codes: [-32603, 408, 500, 502, 503, 504, -32500, -32502, -32503, -32504, -32408],
    text: null,
    about: 'JSON-RPC: internal error; HTTP statuses as codes',
  },
  {
    meaning: 'unhealthy',
    codes: null,
    text: /node is (behind|unhealthy|syncing|not synced)|behind by \d+ slots|no (healthy|available|working) (node|upstream|backend|server|provider)|not (fully )?synced/i,
    about: 'other codes: the node is behind, or the provider has no healthy node',
  },
  {
    meaning: 'fault',
    codes: null,
    text: /timed?.?out|time limit|deadline exceeded|took too long|internal (server )?error|(service|server|temporarily|upstream) .{0,20}(unavailable|busy|overloaded|error)|overloaded|bad gateway|connection (refused|reset|closed)|try again/i,
    about: 'other codes: timed out, overloaded, internal error (-32000 of many providers)',
  },
  {
    meaning: 'not-offered',
    codes: null,
    text: NOT_OFFERED,
    about: 'other codes: the method is disabled, or not part of the plan (Ankr, Alchemy, dRPC, Chainstack)',
  },
  {
    meaning: 'no-history',
    codes: null,
    text: /history is not available|ledger jump|cleaned up|first available block|archiv(e|al) (data|node|state)/i,
    about: 'other codes: the data is older than what the node keeps',
  },
];

/** Longest message that is searched. */
const MAX_TEXT_CHARS = 1_000;

/** `method`: of the call that was refused. */
export function meaningOfNodeError({ code, message, data }: NodeErrorLike, method: string): NodeErrorMeaning {
  const number = typeof code === 'string' && /^-?\d{1,6}$/.test(code) ? Number(code) : code;
  const text = `${typeof message === 'string' ? message : ''} ${typeof data === 'string' ? data : ''}`.slice(
    0,
    MAX_TEXT_CHARS,
  );
  for (const row of NODE_ERRORS) {
    if (row.codes !== null && !row.codes.includes(number as number)) continue;
    if (row.methods !== undefined && !row.methods.test(method)) continue;
    if (row.text === null || row.text.test(text)) return row.meaning;
  }
  return 'unknown';
}

/** The meaning of an error in JSON text; `unknown` where that is no object. */
export function meaningOfErrorText(text: string, method: string): NodeErrorMeaning {
  try {
    const error: unknown = JSON.parse(text);
    return isPlainObject(error) ? meaningOfNodeError(error, method) : 'unknown';
  } catch {
    return 'unknown';
  }
}

/** What the node said in an error of `ChainReader.call`; null: the error is none of the node. */
export function meaningOfRefusal(error: unknown): NodeErrorMeaning | null {
  if (codeOf(error) !== 'CHAIN_RPC_ERROR') return null;
  const { facts = {}, message } = error as Partial<CodedError>;
  return meaningOfNodeError({ code: facts['rpcCode'], message, data: facts['said'] }, String(facts['method'] ?? ''));
}

/** An error object as it came. */
export type NodeErrorLike = { readonly [Name in keyof RpcErrorObject]?: unknown };

/** Whether the error is given to the caller, without another upstream being asked. */
export const isFinalAnswer = (meaning: NodeErrorMeaning): boolean =>
  meaning === 'answer' || meaning === 'version' || meaning === 'skipped';

/**
 * Whether a further upstream is asked however many were asked before. The other refusals may be about the call all the same: one more
 * upstream is asked.
 */
export const isOfTheNode = (meaning: NodeErrorMeaning): boolean =>
  !isFinalAnswer(meaning) && meaning !== 'unknown' && meaning !== 'skipped-or-lost';

/** Whether the slot has no block, as far as the node knows. */
export const isSkip = (meaning: NodeErrorMeaning): boolean => meaning === 'skipped' || meaning === 'skipped-or-lost';

/** Whether the node would refuse other calls too. */
export const isOfHealth = (meaning: NodeErrorMeaning): boolean =>
  meaning === 'limited' || meaning === 'exhausted' || meaning === 'unhealthy' || meaning === 'fault';

/** Whether the node refuses before it sends a transaction, so that another one may send it. */
export const isBeforeSending = (meaning: NodeErrorMeaning): boolean =>
  meaning === 'limited' ||
  meaning === 'exhausted' ||
  meaning === 'not-offered' ||
  meaning === 'unhealthy' ||
  meaning === 'not-yet';

/** The most useful of several refusals first: those that may be about the call, then those that pass, then those that stay. */
const USEFUL_FIRST: readonly NodeErrorMeaning[] = [
  'answer',
  'version',
  'skipped',
  'skipped-or-lost',
  'unknown',
  'not-yet',
  'limited',
  'unhealthy',
  'no-history',
  'no-index',
  'fault',
  'exhausted',
  'not-offered',
];

/** Whether a refusal is more useful to the caller than one that came before it. */
export const isMoreUseful = (one: NodeErrorMeaning, before: NodeErrorMeaning): boolean =>
  USEFUL_FIRST.indexOf(one) < USEFUL_FIRST.indexOf(before);

type NodeErrorOutcome =
  | { readonly kind: 'ok' | 'exhausted' }
  | { readonly kind: 'limited'; readonly retryAfterMs: number | null }
  | { readonly kind: 'failed'; readonly reason: string };

/** What an error object says about the upstream. Most say nothing against it: a caller could provoke them. `pauseMs`: its Retry-After. */
export function outcomeOf(meaning: NodeErrorMeaning, pauseMs: number | null): NodeErrorOutcome {
  if (meaning === 'limited') return { kind: 'limited', retryAfterMs: pauseMs };
  if (meaning === 'exhausted') return { kind: 'exhausted' };
  return meaning === 'unhealthy' ? { kind: 'failed', reason: 'it is unhealthy' } : { kind: 'ok' };
}

/** HTTP statuses that refuse the key or the plan. */
export const isDenied = (status: number): boolean => status === 401 || status === 402 || status === 403;
