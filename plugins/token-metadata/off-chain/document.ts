/** What is kept of the JSON that metadata points to: always this shape, other members are dropped. */
export interface OffChainDocument {
  readonly name: string;
  readonly symbol: string;
  readonly description: string;
  readonly image: string;
  readonly attributes: readonly { readonly traitType: string; readonly value: string }[] | null;
  readonly sellerFeeBasisPoints: number;
  readonly properties: {
    readonly category: string | null;
    readonly creators: readonly { readonly address: string; readonly share: number }[] | null;
    readonly files: readonly { readonly uri: string; readonly type: string }[] | null;
  };
}

/** A document, or why there is none. */
export type OffChainAnswer =
  | { readonly document: OffChainDocument; readonly error: '' }
  | { readonly document: null; readonly error: 'TIMEOUT' | 'UNKNOWN' };

export const failed = (error: 'TIMEOUT' | 'UNKNOWN'): OffChainAnswer => ({ document: null, error });
