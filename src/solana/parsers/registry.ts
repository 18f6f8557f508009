import { bubblegum } from './bubblegum.ts';
import { jupiter, jupiterLimit, jupiterLimitV2, jupiterRecurring } from './jupiter.ts';
import { compressedToken, lightSystem } from './light.ts';
import { magicEden } from './magic-eden.ts';
import {
  meteoraBins,
  meteoraDynamic,
  meteoraPools,
  openbook,
  openbookV2,
  phoenix,
  raydiumConcentrated,
  raydiumConstantProduct,
  raydiumLiquidity,
  raydiumPool,
  serum,
  whirlpool,
} from './markets.ts';
import { candyMachine, metaplexCore, tokenMetadata } from './metaplex.ts';
import { nameService } from './named.ts';
import { type Parsed, type TransactionParser, type TransactionView, UNKNOWN } from './parser.ts';
import { pumpAmm, pumpFun } from './pump.ts';
import { marketSwap, unknownSwap } from './recognized-swaps.ts';
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
import { tensor } from './tensor.ts';
import { loader, phantomTransfer, splBurn, splMint, splTransfer, systemTransfer } from './transfers.ts';

/** In order: the first parser that recognizes a transaction decides. */
export const PARSERS: readonly TransactionParser[] = [
  // Covered by recorded hosted answers.
  magicEden,
  bubblegum,
  jupiter,
  raydiumPool,
  raydiumLiquidity,
  stake,
  tokenMetadata,
  candyMachine,
  phantomTransfer,
  splBurn,
  splMint,
  splTransfer,
  systemTransfer,
  loader,
  // Programs that add meaning to transfers; none of the parsers above accepts them in addition to other instructions.
  tensor,
  pumpFun,
  marketSwap,
  jupiterLimit,
  jupiterLimitV2,
  jupiterRecurring,
  raydiumConcentrated,
  raydiumConstantProduct,
  whirlpool,
  meteoraBins,
  meteoraPools,
  meteoraDynamic,
  pumpAmm,
  phoenix,
  serum,
  openbook,
  openbookV2,
  metaplexCore,
  squadsV3,
  squadsV4,
  marinade,
  stakePool,
  sanctumSinglePool,
  sanctumMultiPool,
  sanctumInfinity,
  sanctumRouter,
  compressedToken,
  lightSystem,
  nameService,
  // By net effect, when all programs are unknown.
  unknownSwap,
];

/** Called when a parser throws; the next parser then gets the transaction. */
export type ParserFault = (parser: string, signature: string, error: unknown) => void;

/** The type of a transaction; `UNKNOWN` when no parser recognizes it. Never throws. */
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

/** The result of a parser whose texts and events cannot break the element. */
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
