import { promisify } from 'node:util';
import { brotliCompress, brotliDecompress, constants } from 'node:zlib';
import { decodeText, encodeText } from './codec.ts';
import { type Frame, PLAIN } from './frame.ts';

const QUALITY = 5;
const compress = promisify<Buffer, object, Buffer>(brotliCompress);
const decompress = promisify<Buffer, Buffer>(brotliDecompress);

/** The columns, or the text itself where they do not lead back to the same bytes; and the flags. */
export async function payloadOf(text: Buffer): Promise<readonly [Buffer, number]> {
  const columns = encodeText(text);
  const isReversible = isSame(columns, text);
  const bytes = isReversible ? columns : text;
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: QUALITY,
    [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  return [await compress(bytes, { params }), isReversible ? 0 : PLAIN];
}

function isSame(columns: Buffer, text: Buffer): boolean {
  try {
    return decodeText(columns).equals(text);
  } catch {
    return false;
  }
}

export async function textOf({ flags }: Frame, payload: Buffer): Promise<Buffer> {
  const bytes = await decompress(payload);
  return (flags & PLAIN) === 0 ? decodeText(bytes) : bytes;
}
