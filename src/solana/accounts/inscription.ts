import { createByteReader } from '../../lib/bytes.ts';
import { INSCRIPTION_PROGRAM } from '../programs.ts';
import { type Decoded, keyText, type RawAccount, readText, tryDecode, undecoded } from './decoded.ts';

/** What the program of LibrePlex says of data that somebody inscribed for a mint. The data are in an account of their own. */
export interface Inscription {
  /** Address that may change it; an address without a private key if it is final. */
  readonly authority: string;
  /** What it is an inscription of. */
  readonly root: string;
  readonly dataAccount: string;
  /** Place among all inscriptions. */
  readonly order: bigint;
  /** Bytes of the data. */
  readonly size: number;
  readonly contentType: string;
  readonly encoding: string;
  /** Hash of the whole data; null until somebody sets it. */
  readonly validationHash: string | null;
}

/** Start of an account of version 3; the program moved the older ones. */
const VERSION_3 = Buffer.of(232, 120, 205, 47, 153, 239, 229, 224);

/** Reads an account of version 3 of the inscription program. */
export function decodeInscription({ owner, data }: RawAccount): Decoded<Inscription> {
  if (data.length === 0) return undecoded('missing');
  if (owner !== INSCRIPTION_PROGRAM || !VERSION_3.equals(data.subarray(0, VERSION_3.length)))
    return undecoded('foreign');
  return tryDecode(() => {
    const reader = createByteReader(data, VERSION_3.length);
    const [authority, root, dataAccount] = [keyText(reader), keyText(reader), keyText(reader)];
    const [order, size, contentType, encoding] = [reader.u64(), reader.u32(), readText(reader), readText(reader)];
    const validationHash = reader.option(() => readText(reader));
    return { authority, root, dataAccount, order, size, contentType, encoding, validationHash };
  });
}
