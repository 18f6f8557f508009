import { type ServiceToken, serviceToken } from './service.ts';

/** Off-chain documents of tokens, by the URI on the chain. */
export interface OffChainDocuments {
  /**
   * The parsed documents that are known within `waitMs`. Those that could not be read, or are not there yet, are absent; they are fetched
   * in the background.
   */
  read(uris: readonly string[], waitMs: number): Promise<ReadonlyMap<string, unknown>>;
}

/** Offered by the plugin `token-metadata`. */
export const offChainDocuments: ServiceToken<OffChainDocuments> = serviceToken('token-metadata.documents');
