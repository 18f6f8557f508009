import { bubblegum } from './bubblegum/bubblegum.ts';
import { jupiter } from './jupiter/jupiter.ts';
import { jupiterLimit, jupiterLimitV2, jupiterRecurring } from './jupiter/orders.ts';
import { compressedToken } from './light/compressed-token.ts';
import { lightSystem } from './light/light-system.ts';
import { loader } from './loader/loader.ts';
import { magicEden } from './magic-eden/magic-eden.ts';
import { meteoraBins, meteoraDynamic, meteoraPools } from './markets/meteora.ts';
import { openbook, openbookV2, phoenix, serum } from './markets/order-books.ts';
import { whirlpool } from './markets/whirlpool.ts';
import { candyMachine } from './metaplex/candy-machine.ts';
import { metaplexCore } from './metaplex/core.ts';
import { tokenMetadata } from './metaplex/token-metadata.ts';
import { nameService } from './names/name-service.ts';
import type { TransactionParser } from './parser.ts';
import { pumpAmm } from './pump/pump-amm.ts';
import { pumpFun } from './pump/pump-fun.ts';
import { raydiumConcentrated, raydiumConstantProduct, raydiumLiquidity } from './raydium/liquidity.ts';
import { raydiumPool } from './raydium/liquidity-pool.ts';
import { phantomTransfer, splBurn, splMint, splTransfer } from './spl/token.ts';
import { squadsV3, squadsV4 } from './squads/squads.ts';
import { marinade, sanctumInfinity, sanctumMultiPool, sanctumSinglePool, stakePool } from './stake/pools.ts';
import { sanctumRouter } from './stake/sanctum-router.ts';
import { stake } from './stake/stake.ts';
import { marketSwap } from './swap/market-swap.ts';
import { systemTransfer } from './system/transfer.ts';
import { tensor } from './tensor/tensor.ts';

/** In order: the first that knows a transaction says what it is. */
export const PARSERS: readonly TransactionParser[] = [
  // What hosted answers have been recorded of.
  ...[magicEden, bubblegum, jupiter, raydiumPool, raydiumLiquidity, stake, tokenMetadata, candyMachine],
  ...[phantomTransfer, splBurn, splMint, splTransfer, systemTransfer, loader],
  // Programs that make a transaction more than its transfers; none of those above accepts them beside other instructions.
  ...[tensor, pumpFun, marketSwap],
  ...[jupiterLimit, jupiterLimitV2, jupiterRecurring],
  ...[raydiumConcentrated, raydiumConstantProduct, whirlpool, meteoraBins, meteoraPools, meteoraDynamic, pumpAmm],
  ...[phoenix, serum, openbook, openbookV2],
  ...[metaplexCore, squadsV3, squadsV4, marinade, stakePool, sanctumSinglePool, sanctumMultiPool, sanctumInfinity],
  ...[sanctumRouter, compressedToken, lightSystem, nameService],
];
