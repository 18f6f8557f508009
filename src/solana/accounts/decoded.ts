import { LayoutError } from '../byte-reader.ts';

/** What an account holds, or why it does not hold what was looked for. */
export type Decoded<T> =
  | { readonly value: T; readonly reason: null }
  /** `missing`: there is nothing; `foreign`: another program's or another kind of account; `malformed`: damaged. */
  | { readonly value: null; readonly reason: UndecodedReason };

export type UndecodedReason = 'missing' | 'foreign' | 'malformed';

export const undecoded = (reason: UndecodedReason): Decoded<never> => ({ value: null, reason });

/** Runs a reader of bytes; a layout that does not fit is `malformed`, any other error a bug that goes on. */
export function attempt<T>(read: () => T): Decoded<T> {
  try {
    return { value: read(), reason: null };
  } catch (error) {
    if (error instanceof LayoutError) return undecoded('malformed');
    throw error;
  }
}
