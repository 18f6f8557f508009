/** Whom a pushed block came from. */
export const STREAM = 'stream';

/** What is known of the pushed blocks. Times are monotonic ms. */
export interface StreamState {
  /** Its blocks continue the chain: polling only looks at the tip. */
  leads: boolean;
  lastBlockAt: number;
}
