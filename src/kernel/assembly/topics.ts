/** What roles tell each other over the bus. All of it can also be found in the store, a little later. */
export const TOPICS = {
  /** `{}`: jobs may be due. */
  jobsDue: 'jobs.due',
  /** `{chain, header}`: a block was committed. */
  released: 'chain.released',
  /** `{chain, status}`: where the follower stands, about every second. */
  status: 'chain.status',
} as const;
