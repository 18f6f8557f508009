import type { Queries } from '../../../src/ports/store.ts';

interface Tables {
  token_metadata_documents: {
    id: string;
    /** The fixed shape as JSON; null where there is none, and `error` says why. */
    document: string | null;
    error: string;
    expires_at: number;
  };
  token_metadata_mints: {
    mint: string;
    /** JSON, with large numbers as text. */
    facts: string;
    /** JSON list of the accounts that they were read from. */
    keys: string;
    slot: number;
    read_at: number;
  };
  token_metadata_changes: { id: number; mint: string; slot: number };
}

export type Db = Queries<Tables>;
