/** What an instruction is, as far as the V2 reading is concerned. */
export type StepClass = 'solana' | 'light' | 'insert' | 'transfer2' | 'registry' | 'other';

/** Positions in a list of instructions that make one event together. */
export interface Pattern {
  readonly insert: number;
  readonly system: number;
  /** The token transfer that caused it, when the registry paid for it. */
  readonly transfer: number | null;
}

/**
 * Finds each `InsertIntoQueues` and the call of the light-system program that executed it: backwards from it, the first one beyond a call
 * of Solana's system program. Calls of the light-system program before that only prepared a context. In the order of execution.
 */
export function findPatterns(steps: readonly StepClass[]): readonly Pattern[] {
  const found: Pattern[] = [];
  for (let at = steps.length - 1; at >= 0; ) {
    if (steps[at] !== 'insert') {
      at -= 1;
      continue;
    }
    const { pattern, end } = walkBack(steps, at);
    if (pattern !== null) found.push(pattern);
    at = end;
  }
  return found.reverse();
}

/** `end` is where the search goes on: an insert that ends this pattern begins the next. */
function walkBack(
  steps: readonly StepClass[],
  insert: number,
): { readonly pattern: Pattern | null; readonly end: number } {
  let system = -1;
  let isBeyondSolana = false;
  let transfer = -1;
  let paid: number | null = null;
  let at = insert - 1;
  for (; at >= 0; at -= 1) {
    const step = steps[at];
    if (system >= 0) {
      if (step === 'insert') break;
      if (step === 'transfer2' && transfer < 0) transfer = at;
      if (step === 'registry' && transfer >= 0) paid = transfer;
    } else if (step === 'solana') isBeyondSolana = true;
    else if (step === 'light' && isBeyondSolana) system = at;
    else return { pattern: null, end: at };
  }
  return { pattern: system < 0 ? null : { insert, system, transfer: paid }, end: at };
}
