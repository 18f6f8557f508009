import { type ServiceToken, serviceToken } from './service.ts';

export interface Picture {
  readonly bytes: Uint8Array;
  /** By its first bytes, not by what its host says. */
  readonly contentType: string;
}

export interface PictureOptions {
  /** Who asks: none delays the others. */
  readonly group: string;
  readonly signal: AbortSignal;
}

/** Off-chain documents of tokens, by the URI on the chain. */
export interface OffChainDocuments {
  /**
   * The parsed documents that are known within `waitMs`. Those that could not be read, or are not there yet, are absent; they are fetched
   * in the background.
   */
  read(uris: readonly string[], waitMs: number): Promise<ReadonlyMap<string, unknown>>;
  /**
   * The picture behind a URI of an asset or of its document, fetched now by the guarded client: PNG, JPEG, GIF, WebP or AVIF, at most
   * `offChain.maxPictureBytes`. Null: there is none, or too many are requested at once. Never rejects.
   */
  picture(uri: string, options: PictureOptions): Promise<Picture | null>;
}

/** Offered by the plugin `token-metadata`. */
export const offChainDocuments: ServiceToken<OffChainDocuments> = serviceToken('token-metadata.documents');
