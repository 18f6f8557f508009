import type { MintFacts, MintTransferFee } from '../../../src/ports/token-facts.ts';

/** Facts as JSON text: large numbers are texts in it. */
export function writeFacts(facts: MintFacts): string {
  return JSON.stringify(facts, (_name, value: unknown) => (typeof value === 'bigint' ? value.toString() : value));
}

/** Reads what `writeFacts` wrote. */
export function readFacts(text: string): MintFacts {
  const facts = JSON.parse(text) as MintFacts;
  const fee = (given: MintTransferFee['newer']): MintTransferFee['newer'] => ({
    ...given,
    epoch: BigInt(given.epoch),
    maximum: BigInt(given.maximum),
  });
  const { transferFee } = facts;
  return {
    ...facts,
    supply: BigInt(facts.supply),
    transferFee: transferFee && { older: fee(transferFee.older), newer: fee(transferFee.newer) },
  };
}
