import { createHash } from 'node:crypto';
import { decode32, encode32 } from '../lib/base58.ts';
import { equalBytes } from '../lib/bytes.ts';
import { lazy } from '../lib/lazy.ts';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  CORE_PROGRAM,
  INSCRIPTION_PROGRAM,
  METADATA_PROGRAM,
  TOKEN_PROGRAM,
} from './programs.ts';

const HIGHEST_BUMP = 255;

/** A key constant in the code. Throws TypeError for an invalid key. */
export function knownKey(text: string): Uint8Array {
  const key = decode32(text);
  if (key === null) throw new TypeError(`${text} is no key`);
  return key;
}

/** The address that a program derives from seeds, without a private key, as 32 bytes. Throws RangeError when none exists. */
export function programAddress(seeds: readonly Uint8Array[], program: Uint8Array): Uint8Array {
  for (let bump = HIGHEST_BUMP; bump >= 0; bump -= 1) {
    const address = addressAtBump(seeds, program, bump);
    if (!isOnCurve(address)) return Uint8Array.from(address);
  }
  throw new RangeError('all bumps lead to points of the curve');
}

function addressAtBump(seeds: readonly Uint8Array[], program: Uint8Array, bump: number): Uint8Array {
  const hash = createHash('sha256');
  for (const seed of seeds) hash.update(seed);
  return hash.update(Uint8Array.of(bump)).update(program).update('ProgramDerivedAddress').digest();
}

/** Like `programAddress`, with keys in base58. Seeds are UTF-8 texts or bytes. */
function programAddressText(seeds: readonly (string | Uint8Array)[], program: string): string {
  const bytes = seeds.map((seed) => (typeof seed === 'string' ? Buffer.from(seed) : seed));
  return encode32(programAddress(bytes, knownKey(program)));
}

/** Ed25519 parameters. */
const PRIME = 2n ** 255n - 19n;
/** -121665 / 121666 modulo the prime. */
const D = 37095705934669439343138083508754565189542113879843219016388785533085940283555n;

/**
 * Whether 32 bytes are a point of the curve, by the rule of the chain: they may then be a public key, and cannot be a program address. With
 * y given, x² = (y² - 1) / (dy² + 1) must be a square.
 */
export function isOnCurve(bytes: Uint8Array): boolean {
  const reversed = Buffer.from(bytes).reverse();
  // The highest bit is the sign of x.
  reversed[0] = (reversed[0] as number) & 0x7f;
  const y = BigInt(`0x${reversed.toString('hex')}`);
  const square = (y * y) % PRIME;
  // u / v is a square exactly when u * v is, as they differ by the factor v².
  const product = (((square + PRIME - 1n) % PRIME) * ((D * square + 1n) % PRIME)) % PRIME;
  return jacobi(product, PRIME) >= 0;
}

/** 1 when `value` is a square modulo the prime, -1 when it is not, 0 for 0. */
function jacobi(value: bigint, prime: bigint): number {
  let [a, n, sign] = [value, prime, 1];
  while (a !== 0n) {
    let twos = 0;
    while ((a & 1n) === 0n) {
      a >>= 1n;
      twos += 1;
    }
    const rest = Number(n & 7n);
    if (twos % 2 === 1 && (rest === 3 || rest === 5)) sign = -sign;
    if ((a & 3n) === 3n && (rest & 3) === 3) sign = -sign;
    [a, n] = [n % a, a];
  }
  return n === 1n ? sign : 0;
}

/** The associated token account of an owner and a mint. All in base58; throws TypeError for an invalid key. */
export function associatedTokenAccount(owner: string, mint: string, tokenProgram: string = TOKEN_PROGRAM): string {
  const seeds = [knownKey(owner), knownKey(tokenProgram), knownKey(mint)];
  return encode32(programAddress(seeds, knownKey(ASSOCIATED_TOKEN_PROGRAM)));
}

/** The Metaplex metadata account of a mint. Base58; throws TypeError for an invalid key. */
export function metadataAddress(mint: string): string {
  return programAddressText(['metadata', knownKey(METADATA_PROGRAM), knownKey(mint)], METADATA_PROGRAM);
}

/** The edition account of a mint, original or print. Base58. */
export function editionAddress(mint: string): string {
  return programAddressText(['metadata', knownKey(METADATA_PROGRAM), knownKey(mint), 'edition'], METADATA_PROGRAM);
}

const placeSeeds = lazy(() => {
  const [text, program, edition] = [Buffer.from('metadata'), knownKey(METADATA_PROGRAM), Buffer.from('edition')];
  return {
    program,
    metadata: (mint: Uint8Array) => [text, program, mint],
    edition: (mint: Uint8Array) => [text, program, mint, edition],
  };
});

/** The bumps of the metadata and the edition of a mint, as one number of 16 bits. Keys are 32 bytes. */
export function metadataBumps(mint: Uint8Array, places: { metadata: Uint8Array; edition: Uint8Array }): number {
  const { program, metadata, edition } = placeSeeds();
  const bumpOf = (seeds: readonly Uint8Array[], address: Uint8Array): number => {
    let bump = HIGHEST_BUMP;
    while (bump > 0 && !equalBytes(addressAtBump(seeds, program, bump), address)) bump -= 1;
    return bump;
  };
  return bumpOf(metadata(mint), places.metadata) * 256 + bumpOf(edition(mint), places.edition);
}

/** Metadata and edition of a mint whose bumps are known: without looking at the curve, which takes most of the time. Base58. */
export function metadataPlaces(mint: string, bumps: number): { readonly metadata: string; readonly edition: string } {
  const { program, metadata, edition } = placeSeeds();
  const key = knownKey(mint);
  return {
    metadata: encode32(addressAtBump(metadata(key), program, bumps >> 8)),
    edition: encode32(addressAtBump(edition(key), program, bumps & 255)),
  };
}

/** The record of a programmable NFT in one token account. Base58. */
export function tokenRecordAddress(mint: string, tokenAccount: string): string {
  const seeds = ['metadata', knownKey(METADATA_PROGRAM), knownKey(mint), 'token_record', knownKey(tokenAccount)];
  return programAddressText(seeds, METADATA_PROGRAM);
}

/** The inscription of an asset, whatever its kind. Base58; throws TypeError for an invalid key. */
export function inscriptionAddress(asset: string): string {
  return programAddressText(['inscription_v3', knownKey(asset)], INSCRIPTION_PROGRAM);
}

/** The address that signs for a Core asset in its own transactions. Base58; throws TypeError for an invalid key. */
export function coreAssetSigner(asset: string): string {
  return programAddressText(['mpl-core-execute', knownKey(asset)], CORE_PROGRAM);
}
