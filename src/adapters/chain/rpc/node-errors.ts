/** What the error codes of Solana nodes mean to someone who asks for a block. */
export type BlockErrorMeaning = 'skipped' | 'not-yet' | 'pruned' | 'version' | 'unwell' | 'fatal';

const MEANINGS: ReadonlyMap<number, BlockErrorMeaning> = new Map([
  [-32001, 'pruned'],
  [-32004, 'not-yet'],
  [-32005, 'unwell'],
  [-32007, 'skipped'],
  [-32009, 'skipped'],
  [-32010, 'unwell'],
  [-32011, 'pruned'],
  [-32014, 'not-yet'],
  [-32015, 'version'],
  [-32016, 'not-yet'],
  [-32019, 'unwell'],
  [-32602, 'fatal'],
]);

/** Unknown codes count as a node that is unwell: the next upstream is asked. */
export const meaningOf = (code: number): BlockErrorMeaning => MEANINGS.get(code) ?? 'unwell';
