import { type Clock, codeOf, type Log, type Metrics, messageOf, type Outbound } from '../../../src/plugin/plugin.ts';
import { tenantOf } from '../../../src/ports/access.ts';
import type { OutboundClient, OutboundResponse } from '../../../src/ports/outbound.ts';
import { createSemaphore } from '../../../src/runtime/semaphore.ts';
import type { Poseidon } from '../../../src/solana/merkle/poseidon.ts';
import { timedOut, unavailable, withheld } from './fields.ts';

interface ProverParts {
  readonly config: {
    /** Null when missing. */
    readonly proverUrl: string | null;
    readonly proverApiKey: string | null;
    readonly proverTimeoutMs: number;
    readonly proverConcurrency: number;
  };
  readonly outbound: Outbound;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** The server that computes Groth16 proofs. */
export interface Prover {
  /** Throws when no prover is configured. Call it before preparing a request. */
  required(): void;
  /** Errors: RpcError with the code for clients. */
  prove(body: string, signal: AbortSignal): Promise<CompressedProof>;
  close(): Promise<void>;
}

const MAX_WAITING = 1_000;
/** A proof has about 700 bytes. */
const ANSWER_BYTES = 16_384;
const NO_PROVER =
  'no prover is configured (set compression.proverUrl); Merkle proofs are available through getMultipleCompressedAccountProofs';

export function createProver({ config, outbound, clock, log, metrics }: ProverParts): Prover {
  const { proverTimeoutMs } = config;
  const semaphore = createSemaphore({ concurrency: config.proverConcurrency, maxWaiting: MAX_WAITING });
  const calls = metrics.counter('prover_calls_total', 'requests to the prover, by outcome', ['outcome']);
  let client: OutboundClient | null = null;

  const send = async (url: string, body: string, timeoutMs: number, signal: AbortSignal): Promise<OutboundResponse> => {
    client ??= openClient(outbound, config.proverConcurrency);
    return await client.request({
      method: 'POST',
      url: proveUrl(url),
      headers: {
        'content-type': 'application/json',
        ...(config.proverApiKey === null ? {} : { authorization: `Bearer ${config.proverApiKey}` }),
      },
      body: Buffer.from(body),
      timeoutMs,
      keepBytes: ANSWER_BYTES,
      maxBytes: ANSWER_BYTES,
      signal,
    });
  };

  const ask = async (url: string, body: string, signal: AbortSignal): Promise<CompressedProof> => {
    const startedMs = clock.monotonic();
    const release = await permitWithin(
      semaphore.acquire({ signal, group: tenantOf(signal).id }),
      proverTimeoutMs,
      clock,
    );
    try {
      const leftMs = proverTimeoutMs - (clock.monotonic() - startedMs);
      if (leftMs <= 0) throw late();
      const response = await send(url, body, leftMs, signal).catch((error: unknown) => {
        throw failure(error);
      });
      return proofOf(response);
    } finally {
      release();
    }
  };

  return {
    required() {
      if (config.proverUrl === null) throw unavailable(NO_PROVER);
    },
    async prove(body, signal) {
      const { proverUrl } = config;
      if (proverUrl === null) throw unavailable(NO_PROVER);
      try {
        const proof = await ask(proverUrl, body, signal);
        calls.with('ok').add();
        return proof;
      } catch (error) {
        calls.with('failed').add();
        const { details } = error as { details?: unknown };
        if (!signal.aborted) log.warn({ details: details ?? messageOf(error) }, 'the prover returned no proof');
        throw error;
      }
    },
    close: async () => {
      await client?.close();
    },
  };
}

/** The operator chose the address: any network is allowed, and http too. */
function openClient(outbound: Outbound, maxConnections: number): OutboundClient {
  const allowCidrs = ['0.0.0.0/0', '::/0'];
  return outbound.open({ allowCidrs, allowHttp: true, allowPorts: null, caFile: null, maxConnections });
}

/** `<base>/prove`; keeps the query of the base, which may hold a key. */
function proveUrl(base: string): string {
  const url = new URL(base);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/prove`;
  return url.href;
}

async function permitWithin(permit: Promise<() => void> | null, timeoutMs: number, clock: Clock): Promise<() => void> {
  if (permit === null) throw unavailable('too many requests wait for the prover');
  return await new Promise((resolve, reject) => {
    let isLate = false;
    const cancel = clock.timeout(timeoutMs, () => {
      isLate = true;
      reject(late());
    });
    permit.then(
      (release) => {
        cancel();
        if (isLate) release();
        else resolve(release);
      },
      (error: unknown) => {
        cancel();
        reject(error);
      },
    );
  });
}

const late = () => timedOut('the prover did not answer in time');

/** Codes of the outbound client, which do not contain the address. */
function failure(error: unknown): unknown {
  switch (codeOf(error)) {
    case 'OUTBOUND_TIMEOUT':
      return late();
    case 'OUTBOUND_BAD_RESPONSE':
    case 'OUTBOUND_TOO_LARGE':
      return withheld('the answer of the prover is no proof');
    case undefined:
      return error;
    default:
      return unavailable('the prover cannot be reached');
  }
}

function proofOf({ status, body, truncated }: OutboundResponse): CompressedProof {
  if (status >= 500) throw unavailable(`the prover failed (${status})`);
  if (status >= 400) throw withheld(`the prover refused the request (${status})`);
  const proof = status >= 200 && status < 300 && !truncated ? readProofAnswer(body.toString('utf8')) : null;
  if (proof === null) throw withheld('the answer of the prover is no proof');
  return proof;
}

/** A path of a Merkle tree to prove. All values are 32 bytes. */
export interface PathToProve {
  readonly root: Uint8Array;
  readonly height: number;
  readonly leafIndex: number;
  /** Bottom-up. */
  readonly siblings: readonly Uint8Array[];
}

export interface AccountToProve extends PathToProve {
  readonly leaf: Uint8Array;
}

/** The path is that of the element below the address. */
export interface AddressToProve extends PathToProve {
  readonly address: Uint8Array;
  readonly lowerValue: Uint8Array;
  readonly higherValue: Uint8Array;
  readonly nextIndex: number;
}

/** Height of the trees of the first version: their circuits take all values as public inputs, the others one hash of them. */
const V1_HEIGHT = 26;
const HASH_BYTES = 32;

/** The JSON body of a request. The trees of the accounts have one height, and so have those of the addresses. */
export function proofRequest(
  poseidon: Pick<Poseidon, 'hash'>,
  accounts: readonly AccountToProve[],
  addresses: readonly AddressToProve[],
): string {
  const stateTreeHeight = accounts[0]?.height;
  const addressTreeHeight = addresses[0]?.height;
  const isHashed = [stateTreeHeight, addressTreeHeight].some((height) => height !== undefined && height !== V1_HEIGHT);
  return JSON.stringify({
    circuitType:
      addressTreeHeight === undefined ? 'inclusion' : stateTreeHeight === undefined ? 'non-inclusion' : 'combined',
    stateTreeHeight,
    addressTreeHeight,
    publicInputHash: isHashed ? hex(publicInputHash(poseidon, accounts, addresses)) : undefined,
    inputCompressedAccounts: accounts.length === 0 ? undefined : accounts.map(accountInput),
    newAddresses: addresses.length === 0 ? undefined : addresses.map(addressInput),
  });
}

const pathInput = ({ root, leafIndex, siblings }: PathToProve) => ({
  root: hex(root),
  pathIndex: leafIndex,
  pathElements: siblings.map(hex),
});

const accountInput = (account: AccountToProve) => ({ ...pathInput(account), leaf: hex(account.leaf) });

const addressInput = (element: AddressToProve) => ({
  ...pathInput(element),
  value: hex(element.address),
  leafLowerRangeValue: hex(element.lowerValue),
  leafHigherRangeValue: hex(element.higherValue),
  nextIndex: element.nextIndex,
});

const hex = (bytes: Uint8Array): string =>
  `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex')}`;

/** The public input of a circuit: the chain over (root, value) of each kind, and for both kinds the hash of the two. */
function publicInputHash(
  poseidon: Pick<Poseidon, 'hash'>,
  accounts: readonly Pick<AccountToProve, 'root' | 'leaf'>[],
  addresses: readonly Pick<AddressToProve, 'root' | 'address'>[],
): Uint8Array {
  const hash = (elements: readonly Uint8Array[]): Uint8Array => {
    const result = new Uint8Array(HASH_BYTES);
    poseidon.hash(elements.length, Buffer.concat(elements), 0, result, 0, 1);
    return result;
  };
  const chain = (pairs: readonly (readonly [Uint8Array, Uint8Array])[]): Uint8Array | null =>
    pairs.reduce<Uint8Array | null>((sum, [root, value]) => hash([...(sum === null ? [] : [sum]), root, value]), null);
  const chains = [
    chain(accounts.map(({ root, leaf }) => [root, leaf])),
    chain(addresses.map(({ root, address }) => [root, address])),
  ].filter((sum) => sum !== null);
  const [first, second] = chains;
  if (first === undefined) throw new RangeError('there is nothing to prove');
  return second === undefined ? first : hash([first, second]);
}

/** A Groth16 proof in the form that the programs on chain take. */
export interface CompressedProof {
  /** 32 bytes. */
  readonly a: readonly number[];
  /** 64 bytes. */
  readonly b: readonly number[];
  /** 32 bytes. */
  readonly c: readonly number[];
}

/**
 * Parses a prover's response: `{ar: [x, y], bs: [[x1, x0], [y1, y0]], krs: [x, y]}`, hexadecimal. Null for anything else, or when
 * a point is not on its curve.
 */
export function readProofAnswer(text: string): CompressedProof | null {
  let answer: Partial<Record<string, unknown>>;
  try {
    answer = (JSON.parse(text) ?? {}) as Partial<Record<string, unknown>>;
  } catch {
    return null;
  }
  const ar = numberPair(answer['ar']);
  const krs = numberPair(answer['krs']);
  const [bx, by] = pair(answer['bs']) ?? [];
  const [x, y] = [numberPair(bx), numberPair(by)];
  if (ar === null || krs === null || x === null || y === null) return null;
  if (!isOnG1(ar) || !isOnG1(krs) || !isOnG2([x, y])) return null;
  // The on-chain verifier adds e(-A, B) to the other pairings, and is given -A so that it need not negate it.
  return { a: [...compressG1(negateG1(ar))], b: [...compressG2([x, y])], c: [...compressG1(krs)] };
}

function pair(value: unknown): readonly [unknown, unknown] | null {
  return Array.isArray(value) && value.length === 2 ? [value[0], value[1]] : null;
}

function numberPair(value: unknown): readonly [bigint, bigint] | null {
  const [first, second] = (pair(value) ?? []).map(fieldNumber);
  return first == null || second == null ? null : [first, second];
}

/**
 * Points of BN254 from the prover's form to that of Solana programs: compressed, big-endian, with the sign of y in the top bit
 * of the first byte and the point at infinity in the bit below.
 */
const Q = 21888242871839275222246405745257275088696311157297823662689037894645226208583n;
const FIELD_BYTES = 32;
const LARGER_Y = 0x80;
const INFINITY = 0x40;
const HEX_NUMBER = /^0x[0-9a-fA-F]{1,64}$/;

/** x and y in the base field. */
type PointG1 = readonly [x: bigint, y: bigint];
/** x and y with two coordinates each, that of the imaginary unit first. */
type PointG2 = readonly [x: readonly [bigint, bigint], y: readonly [bigint, bigint]];

/** A hexadecimal number below the prime, or null. Leading zeros may be missing. */
function fieldNumber(text: unknown): bigint | null {
  if (typeof text !== 'string' || !HEX_NUMBER.test(text)) return null;
  const value = BigInt(text);
  return value < Q ? value : null;
}

const minus = (value: bigint): bigint => (value === 0n ? 0n : Q - value);
const modulo = (value: bigint): bigint => ((value % Q) + Q) % Q;

/** Whether the point fulfils y^2 = x^3 + 3; (0, 0) stands for infinity. */
function isOnG1([x, y]: PointG1): boolean {
  return (x === 0n && y === 0n) || modulo(y * y - x * x * x - 3n) === 0n;
}

/** Whether the point fulfils y^2 = x^3 + 3 / (9 + u); zeros stand for infinity. */
function isOnG2([x, y]: PointG2): boolean {
  if (isZero(x) && isZero(y)) return true;
  const cube = times(times(x, x), x);
  const square = times(y, y);
  const [d1, d0] = [square[0] - cube[0], square[1] - cube[1]];
  return modulo(9n * d0 - d1 - 3n) === 0n && modulo(d0 + 9n * d1) === 0n;
}

const isZero = ([c1, c0]: readonly [bigint, bigint]): boolean => c1 === 0n && c0 === 0n;

function times(a: readonly [bigint, bigint], b: readonly [bigint, bigint]): [bigint, bigint] {
  return [modulo(a[0] * b[1] + a[1] * b[0]), modulo(a[1] * b[1] - a[0] * b[0])];
}

/** The point mirrored at the x axis. */
const negateG1 = ([x, y]: PointG1): PointG1 => [x, minus(y)];

/** 32 bytes. */
export function compressG1([x, y]: PointG1): Uint8Array {
  const bytes = bigEndian([x]);
  const flag = x === 0n && y === 0n ? INFINITY : y > minus(y) ? LARGER_Y : 0;
  bytes[0] = (bytes[0] as number) | flag;
  return bytes;
}

/** 64 bytes. */
export function compressG2([x, y]: PointG2): Uint8Array {
  const bytes = bigEndian(x);
  const flag = isZero(x) && isZero(y) ? INFINITY : isLarger(y) ? LARGER_Y : 0;
  bytes[0] = (bytes[0] as number) | flag;
  return bytes;
}

/** Whether y is larger than -y. */
function isLarger([c1, c0]: readonly [bigint, bigint]): boolean {
  return c1 === 0n ? c0 > minus(c0) : c1 > minus(c1);
}

function bigEndian(numbers: readonly bigint[]): Uint8Array {
  const text = numbers.map((value) => value.toString(16).padStart(2 * FIELD_BYTES, '0')).join('');
  return new Uint8Array(Buffer.from(text, 'hex'));
}
