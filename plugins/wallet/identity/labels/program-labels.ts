import {
  ASSOCIATED_TOKEN_PROGRAM,
  CORE_PROGRAM,
  METADATA_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from '../../../../src/solana/address/known-programs.ts';
import { NAME_PROGRAM } from '../../../../src/solana/names/keys.ts';
import type { AddressLabel } from './label.ts';

/** Address, name, category. Persons and companies are not among them: who is behind an address is for operators to say. */
const PROGRAMS: readonly (readonly [address: string, name: string, category: string])[] = [
  [SYSTEM_PROGRAM, 'System Program', 'Native'],
  [TOKEN_PROGRAM, 'Token Program', 'Native'],
  [TOKEN_2022_PROGRAM, 'Token-2022 Program', 'Native'],
  [ASSOCIATED_TOKEN_PROGRAM, 'Associated Token Program', 'Native'],
  ['Stake11111111111111111111111111111111111111', 'Stake Program', 'Native'],
  ['Vote111111111111111111111111111111111111111', 'Vote Program', 'Native'],
  ['ComputeBudget111111111111111111111111111111', 'Compute Budget', 'Native'],
  ['AddressLookupTab1e1111111111111111111111111', 'Address Lookup Table', 'Native'],
  ['MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr', 'Memo v2', 'Tools'],
  [METADATA_PROGRAM, 'Token Metadata', 'NFT'],
  [CORE_PROGRAM, 'Core', 'NFT'],
  ['BGUMAp9Gq7iTEuizy4pqaxsTyUCBK68MDfK752saRPUY', 'Bubblegum', 'Compression'],
  ['cmtDvXumGCrqC1Age74AVPhSRVXJMd8PJS91L8KbNCK', 'Account Compression', 'Compression'],
  ['noopb9bkMVfRPU8AsbpTUg8AQkHtKwMYZiFUjNRtMmV', 'Noop', 'Compression'],
  ['JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4', 'Jupiter v6', 'Aggregator'],
  ['JUP2jxvXaqu7NQY1GmNF4m1vodw12LVXYxbFL2uJvfo', 'Jupiter v2', 'Aggregator'],
  ['675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8', 'Raydium AMM v4', 'Swap'],
  ['whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc', 'Orca Whirlpools', 'Swap'],
  ['M2mx93ekt1fmXSVkTrUL9xVFHkmME8HTUi5Cyc5aF7K', 'Magic Eden v2', 'NFT'],
  [NAME_PROGRAM, 'SPL Name Service', 'Infrastructure'],
];

/** Programs that everybody knows under one name. */
export function programLabels(): readonly AddressLabel[] {
  return PROGRAMS.map(([address, name, category]) => ({
    ...{ address, type: 'program', name, category, tags: [category] },
    source: 'built in',
  }));
}
