import { encode32 } from '../../../lib/base58.ts';
import { createByteReader, LayoutError } from '../../byte-reader.ts';

/** Discriminator, root, nonce, index. */
const HEAD_BYTES = 8 + 32 + 8 + 4;

/**
 * What `update_metadata` sets; null where it is damaged. Members that it leaves alone are absent.
 */
export function readUpdateArgs(data: Uint8Array): Readonly<Record<string, unknown>> | null {
  try {
    const reader = createByteReader(data, HEAD_BYTES);
    const text = (): string => Buffer.from(reader.blob()).toString('utf8');
    const creator = () => {
      const address = encode32(reader.key());
      const verified = reader.bool();
      return { address, share: reader.u8(), verified };
    };
    skipMetadata(reader);
    const args = {
      name: reader.option(text),
      symbol: reader.option(text),
      uri: reader.option(text),
      creators: reader.option(() => reader.list(creator, 34)),
      sellerFeeBasisPoints: reader.option(() => reader.u16()),
      primarySaleHappened: reader.option(() => reader.bool()),
      isMutable: reader.option(() => reader.bool()),
    };
    const given = Object.entries(args).filter(([, value]) => value !== null);
    return Object.fromEntries(given.sort(([left], [right]) => (left < right ? -1 : 1)));
  } catch (error) {
    if (error instanceof LayoutError) return null;
    throw error;
  }
}

/** The metadata as it was. */
function skipMetadata(reader: ReturnType<typeof createByteReader>): void {
  for (let part = 0; part < 3; part++) reader.blob();
  reader.bytes(4);
  reader.option(() => reader.u8());
  reader.option(() => reader.u8());
  reader.option(() => reader.bytes(33));
  reader.option(() => reader.bytes(17));
  reader.u8();
  reader.list(() => reader.bytes(34), 34);
}
