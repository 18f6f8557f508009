import { bubblegum } from './bubblegum/bubblegum.ts';
import { jupiter } from './jupiter/jupiter.ts';
import { loader } from './loader/loader.ts';
import { magicEden } from './magic-eden/magic-eden.ts';
import { candyMachine } from './metaplex/candy-machine.ts';
import { tokenMetadata } from './metaplex/token-metadata.ts';
import type { TransactionParser } from './parser.ts';
import { raydiumPool } from './raydium/liquidity-pool.ts';
import { phantomTransfer, splBurn, splMint, splTransfer } from './spl/token.ts';
import { stake } from './stake/stake.ts';
import { systemTransfer } from './system/transfer.ts';

/** In order: the first that knows a transaction says what it is. */
export const PARSERS: readonly TransactionParser[] = [
  magicEden,
  bubblegum,
  jupiter,
  raydiumPool,
  stake,
  tokenMetadata,
  candyMachine,
  phantomTransfer,
  splBurn,
  splMint,
  splTransfer,
  systemTransfer,
  loader,
];
