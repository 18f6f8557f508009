import { createHash } from 'node:crypto';
import { knownKey, programAddress } from '../address/program-address.ts';
import { type NameAccount, sameBytes } from './accounts.ts';
import type { NameAnswer } from './resolve.ts';

/** The registry that `.sol` names moved to. */
const SRS_PROGRAM = 'srsWjm76StJucL7atFyPSdXFaVLNPFqEt1uFEDPrZsn';
const SRS_CLASS = 'AjheAtCgSwEcEYd6xi6thcQW25ELWd7wKCx6SKBGUtMQ';
const RECORD_BYTES = 75;
const RECORD_TAG = 2;
const UNRESOLVED: NameAnswer = { kind: 'unresolved' };

/** The account of a name, given without its suffix. */
export function srsRecordKey(name: string): Uint8Array {
  const hashed = createHash('sha256').update(`SRS${name}`, 'utf8').digest();
  return programAddress([Buffer.from('record'), knownKey(SRS_CLASS), hashed], knownKey(SRS_PROGRAM));
}

/** What the record tells. A name that has run out stands for nothing. */
export function resolveSrs(record: Uint8Array, account: NameAccount | null, unixSeconds: number): NameAnswer {
  if (account === null || account.owner !== SRS_PROGRAM || account.data.length < RECORD_BYTES) return UNRESOLVED;
  const { data } = account;
  if (data[0] !== RECORD_TAG || !sameBytes(data.subarray(1, 33), knownKey(SRS_CLASS))) return UNRESOLVED;
  const expiry = new DataView(data.buffer, data.byteOffset).getBigInt64(67, true);
  if (expiry !== 0n && expiry <= BigInt(Math.floor(unixSeconds))) return UNRESOLVED;
  const owner = data.subarray(34, 66);
  if (data[33] === 0) return { kind: 'address', address: owner };
  const mint = programAddress([Buffer.from('mint'), record], knownKey(SRS_PROGRAM));
  return data[33] === 1 && sameBytes(owner, mint) ? { kind: 'holder', mint } : UNRESOLVED;
}
