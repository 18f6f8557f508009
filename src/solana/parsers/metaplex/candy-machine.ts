import { PROGRAM_ADDRESSES as AT } from '../data/program-addresses.ts';
import type { TransactionParser } from '../parser.ts';
import { isNftMint, mintedNft } from './token-metadata.ts';

const SOURCES: Readonly<Record<string, string>> = {
  [AT.CANDY_MACHINE_V1]: 'CANDY_MACHINE_V1',
  [AT.CANDY_MACHINE_V2]: 'CANDY_MACHINE_V2',
  [AT.CANDY_MACHINE_CORE_V3]: 'CANDY_MACHINE_V3',
  [AT.CANDY_MACHINE_V3]: 'CANDY_MACHINE_V3',
};

export const candyMachine: TransactionParser = {
  name: 'candy-machine',
  programs: Object.keys(SOURCES),
  parse(view) {
    const machine = view.outer.find(({ programId }) => SOURCES[programId] !== undefined);
    const minted = view.tokens.find(isNftMint);
    if (machine === undefined || minted === undefined) return null;
    // What the machine itself takes of the buyer; rent is no price.
    const price = view.natives
      .filter(
        ({ outer, inner, kind, from }) => outer === machine.outer && inner >= 0 && kind === 'transfer' && from === 0,
      )
      .filter(({ to, toToken }) => toToken === null && (view.tx.preBalances[to] ?? 0) > 0)
      .reduce((sum, { amount }) => sum + amount, 0n);
    return mintedNft(view, SOURCES[machine.programId]!, minted, price);
  },
};
