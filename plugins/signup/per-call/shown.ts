/** The payment that a request shows: a transaction that its client has signed, and we not yet. */
import { encode32 } from '../../../src/lib/base58.ts';
import { isPlainObject } from '../../../src/lib/json.ts';
import type { PaidCall } from '../../../src/plugin/host.ts';
import { peekWire, type WirePeek } from '../../../src/solana/decode/walk-wire.ts';
import { MEMO_PROGRAMS, TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../src/solana/programs.ts';

export interface ShownPayment {
  /** Version of the protocol. */
  readonly version: 1 | 2;
  /** The whole payload, for the verifier. */
  readonly payload: Readonly<Record<string, unknown>>;
  readonly wire: Buffer;
  readonly peek: WirePeek;
  readonly feePayer: string;
  /** Owner of the tokens. */
  readonly wallet: string;
  readonly mint: string;
  readonly amount: bigint;
  /** Text of its only memo. */
  readonly memo: string;
  /** `extra` of the offer that it accepts; version 1 does not repeat it. */
  readonly extra: Readonly<Record<string, unknown>>;
}

const HEADERS = [
  ['payment-signature', 2],
  ['x-payment', 1],
] as const;
const MAX_CHARACTERS = 8_192;
const MAX_WIRE_BYTES = 1_232;
const TRANSFER_CHECKED = 12;
/** Code, amount, decimals. */
const TRANSFER_BYTES = 10;

/** Null: the request shows none. A text: why it cannot be read. */
export function readShown({ header }: Pick<PaidCall, 'header'>): ShownPayment | string | null {
  const found = HEADERS.find(([name]) => header(name) !== undefined);
  if (found === undefined) return null;
  const [name, version] = found;
  const payload = parsed(header(name) ?? '');
  const inner = payload?.['payload'];
  const text = isPlainObject(inner) ? inner['transaction'] : undefined;
  if (payload === null || typeof text !== 'string')
    return unreadable(name, 'it is not base64 of JSON with payload.transaction');
  if (payload['x402Version'] !== version) return unreadable(name, `x402Version has to be ${version}`);
  const wire = Buffer.from(text, 'base64');
  if (wire.length > MAX_WIRE_BYTES) return unreadable(name, `its transaction is larger than ${MAX_WIRE_BYTES} bytes`);
  let peek: WirePeek;
  try {
    peek = peekWire(wire);
  } catch {
    return unreadable(name, 'payload.transaction is not a transaction');
  }
  if (peek.version === 1) return unreadable(name, 'payload.transaction is of version 1');
  const accepted = payload['accepted'];
  if (version === 2 && !isPlainObject(accepted)) return unreadable(name, 'it does not say which offer it accepts');
  const extra = isPlainObject(accepted) && isPlainObject(accepted['extra']) ? accepted['extra'] : {};
  const facts = factsOf(peek);
  if (facts === null) return unreadable(name, 'its transaction is not one checked transfer of tokens with one memo');
  return { version, payload, wire, peek, extra, ...facts };
}

const unreadable = (name: string, why: string) => `${name}: ${why}`;

function parsed(text: string): Record<string, unknown> | null {
  if (text.length > MAX_CHARACTERS) return null;
  try {
    const value: unknown = JSON.parse(Buffer.from(text, 'base64').toString());
    return isPlainObject(value) ? value : null;
  } catch {
    return null;
  }
}

/** What the transaction pays; null: not one transfer and one memo, or with keys of a lookup table. */
function factsOf(peek: WirePeek) {
  const key = (index: number | undefined) =>
    index === undefined || index >= peek.staticKeyCount ? null : encode32(peek.staticKey(index));
  const programOf = ({ programIndex }: WirePeek['instructions'][number]) => key(programIndex) ?? '';
  const transfers = peek.instructions.filter((one) => [TOKEN_PROGRAM, TOKEN_2022_PROGRAM].includes(programOf(one)));
  const memos = peek.instructions.filter((one) => MEMO_PROGRAMS.includes(programOf(one)));
  const [[transfer], [memo]] = [transfers, memos];
  if (transfer === undefined || memo === undefined || transfers.length > 1 || memos.length > 1) return null;
  if (transfer.data[0] !== TRANSFER_CHECKED || transfer.data.length < TRANSFER_BYTES) return null;
  const [feePayer, mint, wallet] = [key(0), key(transfer.accounts[1]), key(transfer.accounts[3])];
  if (feePayer === null || mint === null || wallet === null) return null;
  const amount = Buffer.from(transfer.data).readBigUInt64LE(1);
  return { feePayer, mint, wallet, amount, memo: Buffer.from(memo.data).toString('latin1') };
}
