import { decode32 } from '../../src/lib/base58.ts';
import { arrayItems, isPlainObject, objectMembers, parseExact, stringify } from '../../src/lib/json.ts';
import { readRpcReply, rpcRequestHead, rpcResultReply } from '../../src/lib/json-rpc.ts';
import type { RpcBatchSeat, RpcForward, RpcForwardReply } from '../../src/plugin/host.ts';
import { RpcError } from '../../src/plugin/plugin.ts';
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../src/solana/programs.ts';

/**
 * What drafts of the standard of the Solana JSON-RPC add (solana-rpc/specs, proposals 0011, 0012 and 0023), in calls that every node knows.
 * A node ignores the members `slot`, `beforeSlot` and `untilSlot` in silence, so that its answer looks right and is not. What cannot be
 * answered is refused by name.
 */
export interface Drafts {
  /** Whether the call has something of a draft. */
  concerns(call: Pick<RpcForward, 'method' | 'body' | 'params'>): boolean;
  /** Errors: RpcError. */
  answer(call: RpcForward): Promise<RpcForwardReply>;
}

type Members = Readonly<Record<string, unknown>>;
type Forward = (call: RpcForward) => Promise<RpcForwardReply>;

interface DraftParts {
  /** A call as it goes to the ledger, the cache or an upstream. */
  readonly forward: Forward;
  /** Whether the operator lets callers have a method. */
  readonly allows: (method: string) => boolean;
}

/** Members of the configuration, the second of the params. */
const MEMBERS: Readonly<Record<string, readonly string[]>> = {
  getTransaction: ['slot'],
  getSignaturesForAddress: ['beforeSlot', 'untilSlot'],
};
const BY_MINT = 'getTokenAccountsByMint';
const MINT_MEMBERS = ['commitment', 'encoding', 'dataSlice', 'minContextSlot', 'programId'];
const MINT_COMMITMENTS: readonly unknown[] = [undefined, 'confirmed', 'finalized'];
const TOKEN_PROGRAMS: readonly unknown[] = [TOKEN_PROGRAM, TOKEN_2022_PROGRAM];

const MAX_SLOT = 2n ** 64n - 1n;
const MAX_ROWS = 1_000;
/** Blocks from `beforeSlot` on that are looked into for a transaction, which is then the place to begin at. */
const PLACE_BLOCKS = 8;
/** Without such a place the list is read from its newest row on; longer ways are refused. */
const MAX_PAGES = 10;

/** A call whose answer is read here comes whole. */
const WHOLE: RpcBatchSeat = { batch: null, park: () => undefined, resume: () => undefined };

const invalid = (details: string) => new RpcError('invalidParams', { details });

export function createDrafts(parts: DraftParts): Drafts {
  const { forward } = parts;
  return {
    concerns({ method, body, params }) {
      if (method === BY_MINT) return true;
      if (!Object.hasOwn(MEMBERS, method) || params === null) return false;
      const config = configOf(body, params);
      return config !== null && MEMBERS[method]!.some((name) => config.includes(name));
    },
    async answer(call) {
      const { body, params } = call;
      const given = params === null ? [] : parseExact(body.toString('utf8', params.start, params.end));
      if (!Array.isArray(given)) throw invalid('params has to be a list');
      if (call.method === BY_MINT) {
        if (!parts.allows('getProgramAccounts')) throw new RpcError('methodNotFound');
        return accountsOfMint(forward, call, given);
      }
      return call.method === 'getTransaction'
        ? transactionIn(forward, call, given)
        : signaturesBetween(parts, call, given);
    },
  };
}

/** The names of the members of the second param; null when it is no object. */
function configOf(body: Buffer, { start, end }: NonNullable<RpcForward['params']>): readonly string[] | null {
  const second = arrayItems(body, start, end)?.[1];
  const members = second === undefined ? null : objectMembers(body, second.start, second.end);
  return members === null ? null : members.map(({ name }) => name);
}

/** The call with another method and other params, for the same caller. */
function derived(call: RpcForward, method: string, params: readonly unknown[], seat: RpcBatchSeat | null): RpcForward {
  const head = `${rpcRequestHead(method, call.id)},"params":`;
  const body = Buffer.from(`${head}${stringify(params)}}`);
  return {
    requestId: call.requestId,
    log: call.log,
    get signal() {
      return call.signal;
    },
    caller: call.caller,
    tenant: call.tenant,
    remoteAddress: call.remoteAddress,
    requestHeader: call.requestHeader,
    requestQuery: call.requestQuery,
    method,
    body,
    params: { start: Buffer.byteLength(head), end: body.length - 1 },
    id: call.id,
    seat,
    stop: call.stop,
  };
}

/** An answer whose result is read here. `result` is null for an error, which is passed on as it is. */
interface ReadReply {
  readonly reply: RpcForwardReply;
  readonly bytes: Buffer;
  readonly result: { readonly start: number; readonly end: number } | null;
}

async function read(
  forward: Forward,
  call: RpcForward,
  method: string,
  params: readonly unknown[],
): Promise<ReadReply> {
  const reply = await forward(derived(call, method, params, WHOLE));
  const { body } = reply;
  if (typeof body !== 'string' && !Buffer.isBuffer(body))
    throw new RpcError('internal', { details: 'an answer came in pieces' });
  const bytes = Buffer.from(body);
  return { reply, bytes, result: readRpcReply(bytes)?.result ?? null };
}

const withResult = ({ reply }: ReadReply, call: RpcForward, resultText: string): RpcForwardReply => ({
  ...reply,
  body: Buffer.from(rpcResultReply(resultText, call.id ?? 'null')),
});

/** A slot as a whole number; null when absent. Throws -32602. */
function slotOf(value: unknown, name: string): bigint | null {
  if (value == null) return null;
  const isWhole = typeof value === 'bigint' || Number.isSafeInteger(value);
  const slot = isWhole ? BigInt(value as number | bigint) : -1n;
  if (slot < 0n || slot > MAX_SLOT) throw invalid(`${name} has to be a slot`);
  return slot;
}

/** `getTransaction` with `slot`: null unless it is the transaction of exactly this slot. */
async function transactionIn(
  forward: Forward,
  call: RpcForward,
  [signature, given, ...rest]: readonly unknown[],
): Promise<RpcForwardReply> {
  const { slot: wanted, ...config } = given as Members;
  const slot = slotOf(wanted, 'slot');
  const params = [signature, config, ...rest];
  if (slot === null) return await forward(derived(call, call.method, params, call.seat));
  const answer = await read(forward, call, call.method, params);
  const { bytes, result, reply } = answer;
  const member =
    result === null ? undefined : objectMembers(bytes, result.start, result.end)?.find(({ name }) => name === 'slot');
  if (member === undefined || bytes.toString('latin1', member.start, member.end) === String(slot)) return reply;
  return withResult(answer, call, 'null');
}

/** `getTokenAccountsByMint`: by its own text `getProgramAccounts` with the mint at the start of the data. */
async function accountsOfMint(
  forward: Forward,
  call: RpcForward,
  [mint, given, ...rest]: readonly unknown[],
): Promise<RpcForwardReply> {
  if (typeof mint !== 'string' || decode32(mint) === null) throw invalid('params[0] has to be the address of a mint');
  if (rest.length > 0) throw invalid(`${BY_MINT} has at most two params`);
  if (given != null && !isPlainObject(given)) throw invalid('params[1] has to be an object');
  const config: Members = given ?? {};
  const { programId = TOKEN_PROGRAM, commitment, ...shown } = config;
  const unknown = Object.keys(config).find((name) => !MINT_MEMBERS.includes(name));
  if (unknown !== undefined) throw invalid(`${unknown} is not a member of the configuration of ${BY_MINT}`);
  if (!TOKEN_PROGRAMS.includes(programId ?? TOKEN_PROGRAM))
    throw invalid(`programId has to be one of ${TOKEN_PROGRAMS.join(', ')}`);
  if (!MINT_COMMITMENTS.includes(commitment ?? undefined)) throw invalid('commitment has to be confirmed or finalized');
  // Base58, which nodes give without an encoding, has no room for a token account.
  const options = {
    ...shown,
    encoding: shown['encoding'] ?? 'base64',
    ...(commitment == null ? {} : { commitment }),
    withContext: true,
    filters: [{ memcmp: { offset: 0, bytes: mint } }],
  };
  return await forward(derived(call, 'getProgramAccounts', [programId ?? TOKEN_PROGRAM, options], call.seat));
}

/** Rows of `getSignaturesForAddress` as text, newest first. */
interface ListedRow {
  readonly text: string;
  readonly slot: bigint;
  readonly signature: string;
}

function rowsOf({ bytes, result }: ReadReply): readonly ListedRow[] {
  const items = result === null ? null : arrayItems(bytes, result.start, result.end);
  if (items === null) throw new RpcError('unavailable', { details: 'the node answers in an unknown form' });
  return items.map(({ start, end }) => {
    const text = bytes.toString('utf8', start, end);
    const { slot, signature } = JSON.parse(text) as { readonly slot: number; readonly signature: string };
    return { text, slot: BigInt(slot), signature };
  });
}

/** `getSignaturesForAddress` with bounds that are slots, both exclusive. */
async function signaturesBetween(
  parts: DraftParts,
  call: RpcForward,
  [address, given, ...rest]: readonly unknown[],
): Promise<RpcForwardReply> {
  const { forward } = parts;
  const { beforeSlot, untilSlot, ...config } = given as Members;
  const below = slotOf(beforeSlot, 'beforeSlot');
  const above = slotOf(untilSlot, 'untilSlot');
  if (below !== null && config['before'] != null) throw invalid('beforeSlot excludes before');
  if (above !== null && config['until'] != null) throw invalid('untilSlot excludes until');
  const list = (more: Members) => read(forward, call, call.method, [address, { ...config, ...more }, ...rest]);
  if (below === null && above === null)
    return await forward(derived(call, call.method, [address, config, ...rest], call.seat));
  const limit = config['limit'] ?? MAX_ROWS;
  const isEmpty = below !== null && below <= (above ?? -1n) + 1n;
  // The node judges everything else of the call.
  if (!Number.isInteger(limit) || (limit as number) < 1 || (limit as number) > MAX_ROWS || isEmpty) {
    const answer = await list({});
    return answer.result === null ? answer.reply : withResult(answer, call, '[]');
  }
  const place = below === null ? null : await placeAt(parts, call, below, config['commitment']);
  const isPlaced = below === null || place !== null;
  const found: string[] = [];
  let before: Members = place === null ? {} : { before: place };
  for (let page = 1; page <= MAX_PAGES; page += 1) {
    const most = isPlaced ? (limit as number) - found.length : MAX_ROWS;
    const answer = await list({ ...before, limit: most });
    if (answer.result === null) return answer.reply;
    const rows = rowsOf(answer);
    const wanted = rows.filter(({ slot }) => (below === null || slot < below) && (above === null || slot > above));
    found.push(...wanted.map(({ text }) => text));
    const last = rows.at(-1);
    const isOver = last === undefined || rows.length < most || (above !== null && last.slot <= above);
    if (isOver || found.length >= (limit as number))
      return withResult(answer, call, `[${found.slice(0, limit as number).join()}]`);
    before = { before: last.signature };
  }
  throw invalid(
    `beforeSlot cannot be answered: no transaction was found in the blocks from slot ${below} on, and there are more than ${MAX_PAGES * MAX_ROWS} newer ones of the address; use before`,
  );
}

/** The first transaction at or above a slot, whose place bounds a list as the slot does; null when none is found soon. */
async function placeAt(
  { forward, allows }: DraftParts,
  call: RpcForward,
  slot: bigint,
  commitment: unknown,
): Promise<string | null> {
  const at = commitment == null ? {} : { commitment };
  const isAsked = allows('getBlock') && allows('getBlocksWithLimit') && slot <= BigInt(Number.MAX_SAFE_INTEGER);
  if (!isAsked) return null;
  const slots = await resultOf(forward, call, 'getBlocksWithLimit', [Number(slot), PLACE_BLOCKS, at]);
  if (!Array.isArray(slots)) return null;
  for (const one of slots as readonly unknown[]) {
    const config = { ...at, transactionDetails: 'signatures', rewards: false, maxSupportedTransactionVersion: 1 };
    const block = await resultOf(forward, call, 'getBlock', [one, config]);
    const signatures = isPlainObject(block) ? block['signatures'] : null;
    if (!Array.isArray(signatures)) return null;
    if (typeof signatures[0] === 'string') return signatures[0];
  }
  return null;
}

/** Null for an error: the list is read from its newest row then. */
async function resultOf(
  forward: Forward,
  call: RpcForward,
  method: string,
  params: readonly unknown[],
): Promise<unknown> {
  const { bytes, result } = await read(forward, call, method, params);
  return result === null ? null : parseExact(bytes.toString('utf8', result.start, result.end));
}
