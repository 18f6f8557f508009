import { bubblegum } from './bubblegum.ts';
import { jupiter, jupiterLimit, jupiterLimitV2, jupiterRecurring } from './jupiter.ts';
import { compressedToken, lightSystem } from './light.ts';
import { magicEden } from './magic-eden.ts';
import { marketSwap } from './market-swap.ts';
import {
  meteoraBins,
  meteoraDynamic,
  meteoraPools,
  openbook,
  openbookV2,
  phoenix,
  serum,
  whirlpool,
} from './markets.ts';
import { candyMachine, metaplexCore, tokenMetadata } from './metaplex.ts';
import { nameService } from './named.ts';
import { type Parsed, type TransactionParser, type TransactionView, UNKNOWN } from './parser.ts';
import { pumpAmm, pumpFun } from './pump.ts';
import { raydiumConcentrated, raydiumConstantProduct, raydiumLiquidity, raydiumPool } from './raydium.ts';
import { squadsV3, squadsV4 } from './squads.ts';
import {
  marinade,
  sanctumInfinity,
  sanctumMultiPool,
  sanctumRouter,
  sanctumSinglePool,
  stake,
  stakePool,
} from './stake.ts';
import { loader, systemTransfer } from './system.ts';
import { tensor } from './tensor.ts';
import { phantomTransfer, splBurn, splMint, splTransfer } from './token.ts';
import { unknownSwap } from './unknown-swap.ts';

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
  // By what it did alone, when nobody knows its programs.
  unknownSwap,
];

/** Told when a parser throws: its transaction is what the next one says. */
export type ParserFault = (parser: string, signature: string, error: unknown) => void;

/** What a transaction is; `UNKNOWN` when no parser knows it. Never throws. */
export function classify(
  view: TransactionView,
  parsers: readonly TransactionParser[],
  onFault: ParserFault = () => {},
): Parsed {
  const asked = new Set(view.outer.map(({ programId }) => programId));
  const called = new Set(view.steps.map(({ programId }) => programId));
  for (const parser of parsers) {
    const runs = parser.isInnerEnough === true ? called : asked;
    if (parser.programs?.some((program) => runs.has(program)) === false) continue;
    try {
      const parsed = parser.parse(view);
      if (parsed !== null) return guarded(parsed, parser.name, view, onFault);
    } catch (error) {
      onFault(parser.name, view.tx.signature, error);
    }
  }
  return UNKNOWN;
}

/** The answer of a parser whose words and events cannot take the element down. */
function guarded(parsed: Parsed, parser: string, view: TransactionView, onFault: ParserFault): Parsed {
  const safe = <T>(make: () => T, otherwise: T): T => {
    try {
      return make();
    } catch (error) {
      onFault(parser, view.tx.signature, error);
      return otherwise;
    }
  };
  return {
    type: parsed.type,
    source: parsed.source,
    hidesNative: parsed.hidesNative ?? false,
    describe: (words) => safe(() => parsed.describe?.(words) ?? '', ''),
    events: (words) => safe(() => parsed.events?.(words) ?? {}, {}),
  };
}
