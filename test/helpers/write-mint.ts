import { decode32 } from '../../src/lib/base58.ts';

export interface MintFields {
  readonly mintAuthority?: string | null;
  readonly supply?: bigint;
  readonly decimals?: number;
  readonly freezeAuthority?: string | null;
  /** Records behind the base; makes it a mint of Token-2022. */
  readonly extensions?: readonly { readonly type: number; readonly value: Uint8Array }[];
}

const BASE_BYTES = 82;
const TYPE_OFFSET = 165;

/** The bytes of a mint account. */
export function writeMint(fields: MintFields = {}): Buffer {
  const { mintAuthority = null, supply = 1n, decimals = 0, freezeAuthority = null, extensions } = fields;
  const base = Buffer.alloc(BASE_BYTES);
  const put = (at: number, key: string | null): void => {
    base.writeUInt32LE(key === null ? 0 : 1, at);
    if (key !== null) base.set(decode32(key)!, at + 4);
  };
  put(0, mintAuthority);
  base.writeBigUInt64LE(supply, 36);
  base.writeUInt8(decimals, 44);
  base.writeUInt8(1, 45);
  put(46, freezeAuthority);
  if (extensions === undefined) return base;
  const records = extensions.map(({ type, value }) => {
    const head = Buffer.alloc(4);
    head.writeUInt16LE(type);
    head.writeUInt16LE(value.length, 2);
    return Buffer.concat([head, value]);
  });
  return Buffer.concat([base, Buffer.alloc(TYPE_OFFSET - BASE_BYTES), Buffer.of(1), ...records]);
}

/** The value of the extension that points to metadata. */
export function pointerValue(authority: string | null, address: string | null): Buffer {
  const key = (text: string | null): Uint8Array => (text === null ? new Uint8Array(32) : decode32(text)!);
  return Buffer.concat([key(authority), key(address)]);
}

export interface ExtensionTexts {
  readonly updateAuthority: string | null;
  readonly mint: string;
  readonly name: string;
  readonly symbol: string;
  readonly uri: string;
}

/** The value of the extension that holds metadata. */
export function tokenMetadataValue({ updateAuthority, mint, name, symbol, uri }: ExtensionTexts): Buffer {
  const text = (value: string): Buffer => {
    const head = Buffer.alloc(4);
    head.writeUInt32LE(Buffer.byteLength(value));
    return Buffer.concat([head, Buffer.from(value)]);
  };
  const authority = updateAuthority === null ? new Uint8Array(32) : decode32(updateAuthority)!;
  return Buffer.concat([authority, decode32(mint)!, text(name), text(symbol), text(uri), Buffer.alloc(4)]);
}
