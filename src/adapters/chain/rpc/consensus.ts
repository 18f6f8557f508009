import { isPlainObject } from '../../../lib/json.ts';
import type { ConsensusFacts } from '../../../ports/chain.ts';
import { ALPENGLOW_CERTIFICATE, SYSTEM_PROGRAM } from '../../../solana/programs.ts';

/**
 * What one node says about the consensus of its chain, read from `getAgGenesisCert`, from the account that holds the same certificate,
 * and from `getVersion` (Agave 4.2.1 to 4.5.0-alpha.4).
 */
export interface ConsensusAnswers {
  /** Result of `getAgGenesisCert`; undefined: the node lacks the method or did not answer. */
  readonly certificate: unknown;
  /** Result of `getAccountInfo` of the certificate's account, as base64; undefined: no answer. */
  readonly account: unknown;
  /** `solana-core` of `getVersion`; undefined: no answer. */
  readonly version: unknown;
}

/**
 * No certificate proves TowerBFT only from a node that would have one: Agave 4.2 reads it under another gate, and answers null for ever.
 * Everything else that is not understood is `unknown`.
 */
export function consensusOf({ certificate, account, version }: ConsensusAnswers): ConsensusFacts {
  const ofCertificate = slotOfCertificate(certificate);
  if (ofCertificate !== null) return { era: 'alpenglow', genesisSlot: ofCertificate, source: 'certificate' };
  const ofAccount = slotOfAccount(account);
  if (ofAccount !== null) return { era: 'alpenglow', genesisSlot: ofAccount, source: 'account' };
  const isAbsent = certificate === null || (certificate === undefined && hasNoValue(account));
  if (isAbsent && knowsCertificate(version)) return { era: 'towerbft', genesisSlot: null, source: 'certificate' };
  return { era: 'unknown', genesisSlot: null, source: null };
}

/** `{block: {slot, blockId}, signature}`; Agave 4.2 writes `block_id`. */
function slotOfCertificate(value: unknown): number | null {
  const block = isPlainObject(value) ? value['block'] : undefined;
  if (!isPlainObject(block) || !isPlainObject((value as Record<string, unknown>)['signature'])) return null;
  const { slot } = block;
  return Number.isSafeInteger(slot) && (slot as number) >= 0 ? (slot as number) : null;
}

const BLOCK_ID_BYTES = 32;
const SIGNATURE_BYTES = 192;
/** Slot, block id, signature, length of the bitmap. */
const HEAD_BYTES = 8 + BLOCK_ID_BYTES + SIGNATURE_BYTES + 8;

function slotOfAccount(value: unknown): number | null {
  const account = isPlainObject(value) ? value['value'] : undefined;
  if (!isPlainObject(account) || account['owner'] !== SYSTEM_PROGRAM) return null;
  const [text, encoding] = Array.isArray(account['data']) ? (account['data'] as unknown[]) : [];
  if (typeof text !== 'string' || encoding !== 'base64') return null;
  const bytes = Buffer.from(text, 'base64');
  if (bytes.length < HEAD_BYTES) return null;
  const bitmapBytes = bytes.readBigUInt64LE(HEAD_BYTES - 8);
  if (BigInt(bytes.length - HEAD_BYTES) !== bitmapBytes) return null;
  const slot = Number(bytes.readBigUInt64LE(0));
  return Number.isSafeInteger(slot) ? slot : null;
}

const hasNoValue = (account: unknown): boolean => isPlainObject(account) && account['value'] === null;

/** Agave 4.3 and later read the certificate under the gate that clusters use. Other clients number their versions differently. */
const knowsCertificate = (version: unknown): boolean => {
  const release = agaveRelease(version);
  return release !== null && release >= FIRST_RELEASE;
};

/** Whether the node is an Agave that cannot pass the move to Alpenglow. */
export function isBeforeAlpenglow(version: string): boolean {
  const release = agaveRelease(version);
  return release !== null && release < FIRST_RELEASE;
}

/** 4.3, as `agaveRelease` writes it. */
const FIRST_RELEASE = 4_003;

/** `4.5.0-alpha.4` as 4005; null if it is no version of Agave. */
function agaveRelease(version: unknown): number | null {
  const [, major, minor] = typeof version === 'string' ? (/^([1-9]\d*)\.(\d{1,3})\./.exec(version) ?? []) : [];
  return major === undefined || minor === undefined ? null : Number(major) * 1_000 + Number(minor);
}

/** The account of the certificate, as parameters of `getAccountInfo`. */
const CERTIFICATE_ACCOUNT = [ALPENGLOW_CERTIFICATE, { encoding: 'base64', commitment: 'finalized' }] as const;

/** Asks one node. `ask` returns the result of a call, or undefined where there is none. */
export async function askConsensus(
  ask: (method: string, params: readonly unknown[]) => Promise<unknown>,
): Promise<ConsensusFacts> {
  const certificate = await ask('getAgGenesisCert', []);
  const alone = consensusOf({ certificate, account: undefined, version: undefined });
  if (alone.era !== 'unknown') return alone;
  const [account, version] = await Promise.all([ask('getAccountInfo', CERTIFICATE_ACCOUNT), ask('getVersion', [])]);
  return consensusOf({ certificate, account, version: isPlainObject(version) ? version['solana-core'] : undefined });
}

/** Facts of several nodes of one chain: a certificate outweighs everything, since it never changes; then a node that would have one. */
export function mergeConsensus(facts: readonly ConsensusFacts[]): ConsensusFacts {
  const known = (era: ConsensusFacts['era']) => facts.find((one) => one.era === era);
  return known('alpenglow') ?? known('towerbft') ?? { era: 'unknown', genesisSlot: null, source: null };
}
