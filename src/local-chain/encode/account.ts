import { encode } from '../../lib/base58.ts';
import { base64, exact } from '../ledger/record.ts';
import type { VmAccount } from '../vm/vm.ts';
import { type AccountConfig, type AccountEncoding, small } from './params.ts';
import { type ParseContext, parseAccount } from './parsed-account.ts';
import { RPC, rpcError } from './rpc-error.ts';

const BASE58_LIMIT_BYTES = 128;

export interface AccountFormat {
  readonly encoding: AccountEncoding;
  readonly slice: { readonly offset: number; readonly length: number } | null;
}

/** The format requested by `encoding` and `dataSlice`. */
export function accountFormatOf(
  config: Partial<Pick<AccountConfig, 'encoding' | 'dataSlice'>> | undefined,
  standard: AccountEncoding = 'binary',
): AccountFormat {
  const { encoding = standard, dataSlice } = config ?? {};
  if (dataSlice === undefined) return { encoding, slice: null };
  return { encoding, slice: { offset: small(dataSlice.offset), length: small(dataSlice.length) } };
}

/** An account in Agave's form; null when it does not exist. Throws -32600 for data above the base58 limit. */
export function accountJson(account: VmAccount | null, format: AccountFormat, context: ParseContext) {
  if (account === null) return null;
  return {
    data: dataJson(account, format, context),
    executable: account.executable,
    lamports: exact(account.lamports),
    owner: account.owner,
    rentEpoch: account.rentEpoch,
    space: account.data.length,
  };
}

/** The same for a notification, which cannot fail: data above the base58 limit is replaced by a message. */
export function accountNotification(account: VmAccount, format: AccountFormat, context: ParseContext) {
  const { encoding, slice } = format;
  const bytes = Math.min(slice?.length ?? Number.POSITIVE_INFINITY, account.data.length - (slice?.offset ?? 0));
  const isText = encoding === 'binary' || encoding === 'base58';
  if (!isText || bytes <= BASE58_LIMIT_BYTES) return accountJson(account, format, context);
  const data = 'error: data too large for bs58 encoding';
  return {
    ...accountJson(account, { encoding: 'base64', slice: { offset: 0, length: 0 } }, context),
    data: encoding === 'binary' ? data : [data, encoding],
  };
}

function dataJson(account: VmAccount, { encoding, slice }: AccountFormat, context: ParseContext): unknown {
  if (encoding === 'jsonParsed') {
    const parsed = parseAccount(account, context);
    if (parsed !== null) return parsed;
  }
  const data = slice === null ? account.data : account.data.subarray(slice.offset, slice.offset + slice.length);
  if (encoding === 'base64' || encoding === 'jsonParsed') return [base64(data), 'base64'];
  if (encoding === 'base64+zstd') return [base64(zstdFrame(data)), encoding];
  if (data.length > BASE58_LIMIT_BYTES) {
    throw rpcError(
      RPC.invalidRequest,
      `Encoded binary (base 58) data should be less than ${BASE58_LIMIT_BYTES} bytes, please use Base64 encoding.`,
    );
  }
  return encoding === 'binary' ? encode(data) : [encode(data), 'base58'];
}

const MAGIC = 0xfd2fb528;
/** One segment, and an 8-byte content size, so that a reader knows the whole size before the first block. */
const DESCRIPTOR = 0b1110_0000;
const MAX_BLOCK_BYTES = 128 * 1024;
/** A shorter run is cheaper inside the block around it. */
const MIN_RUN_BYTES = 16;
const RAW = 0;
const RUN = 1;

/**
 * A Zstandard frame (RFC 8878) of stored blocks, and of runs of one byte, which are most of a large account. Node 20
 * has no compressor, and size does not matter on a local chain.
 */
export function zstdFrame(data: Uint8Array): Buffer {
  const head = Buffer.alloc(13);
  head.writeUInt32LE(MAGIC, 0);
  head[4] = DESCRIPTOR;
  head.writeBigUInt64LE(BigInt(data.length), 5);
  const parts: Uint8Array[] = [head];
  for (const { type, from, to } of blocks(data)) {
    const header = Buffer.alloc(3);
    header.writeUIntLE((to === data.length ? 1 : 0) | (type << 1) | ((to - from) << 3), 0, 3);
    parts.push(header, data.subarray(from, type === RUN ? from + 1 : to));
  }
  return Buffer.concat(parts);
}

/** The parts of the data in order; empty data is one empty block. */
function blocks(data: Uint8Array): { type: number; from: number; to: number }[] {
  const found: { type: number; from: number; to: number }[] = [];
  let stored = 0;
  const store = (until: number): void => {
    for (; stored < until; stored = Math.min(until, stored + MAX_BLOCK_BYTES)) {
      found.push({ type: RAW, from: stored, to: Math.min(until, stored + MAX_BLOCK_BYTES) });
    }
  };
  for (let at = 0; at < data.length; ) {
    let end = at + 1;
    while (end < data.length && data[end] === data[at]) end += 1;
    if (end - at >= MIN_RUN_BYTES) {
      store(at);
      for (; stored < end; stored = Math.min(end, stored + MAX_BLOCK_BYTES)) {
        found.push({ type: RUN, from: stored, to: Math.min(end, stored + MAX_BLOCK_BYTES) });
      }
    }
    at = end;
  }
  store(data.length);
  return found.length === 0 ? [{ type: RAW, from: 0, to: 0 }] : found;
}
