import { encode } from '../../../../lib/base58.ts';
import { base64, exact } from '../ledger/record.ts';
import type { Config } from '../rpc/params.ts';
import { invalidParams, RPC, rpcError } from '../rpc/rpc-error.ts';
import type { VmAccount } from '../vm/vm.ts';
import { type ParseContext, parseAccount } from './parsed-account.ts';

const BASE58_LIMIT_BYTES = 128;

export type AccountEncoding = 'binary' | 'base58' | 'base64' | 'jsonParsed';

export interface AccountFormat {
  readonly encoding: AccountEncoding;
  readonly slice: { readonly offset: number; readonly length: number } | null;
}

/** Reads `encoding` and `dataSlice`. Throws -32602. */
export function accountFormatOf(config: Config): AccountFormat {
  const encoding = config['encoding'] ?? 'binary';
  const slice = config['dataSlice'] as { offset?: unknown; length?: unknown } | undefined | null;
  if (!['binary', 'base58', 'base64', 'jsonParsed'].includes(encoding as string)) {
    throw invalidParams(`Invalid params: encoding \`${String(encoding).slice(0, 64)}\` is not supported`);
  }
  if (slice === undefined || slice === null) return { encoding: encoding as AccountEncoding, slice: null };
  const { offset, length } = slice;
  if (!isSize(offset) || !isSize(length)) throw invalidParams('Invalid params: dataSlice needs offset and length');
  return { encoding: encoding as AccountEncoding, slice: { offset, length } };
}

function isSize(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** An account as the node writes it; null for none. */
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

function dataJson(account: VmAccount, { encoding, slice }: AccountFormat, context: ParseContext): unknown {
  if (encoding === 'jsonParsed') {
    const parsed = parseAccount(account, context);
    if (parsed !== null) return parsed;
  }
  const data = slice === null ? account.data : account.data.subarray(slice.offset, slice.offset + slice.length);
  if (encoding === 'base64' || encoding === 'jsonParsed') return [base64(data), 'base64'];
  if (data.length > BASE58_LIMIT_BYTES) {
    throw rpcError(
      RPC.invalidRequest,
      `Encoded binary (base 58) data should be less than ${BASE58_LIMIT_BYTES} bytes, please use Base64 encoding.`,
    );
  }
  return encoding === 'binary' ? encode(data) : [encode(data), 'base58'];
}
