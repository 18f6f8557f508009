/**
 * What an instruction moved. Accounts are given as positions in `NormalTransaction.keys`, keys (owners, mints, programs) as ids for
 * `Movements.keys`; -1 stands for "none" or "not known".
 */
export type Movement = NativeMove | TokenMove;

/** Where the instruction stands. Movements are in order of execution; `inner` is -1 for an instruction of the message itself. */
export interface MovePlace {
  readonly outer: number;
  readonly inner: number;
}

export type NativeMoveKind =
  | 'transfer'
  | 'transferWithSeed'
  | 'createAccount'
  | 'createAccountWithSeed'
  /** A token account of wrapped SOL was closed: all its lamports, rent included. */
  | 'closeWrapped';

export interface NativeMove extends MovePlace {
  readonly asset: 'native';
  readonly kind: NativeMoveKind;
  readonly from: number;
  readonly to: number;
  /** Lamports, also 0. */
  readonly amount: bigint;
  /** Key of the program that a created account belongs to; -1 for the other kinds. */
  readonly createdFor: number;
  /** The token account at either end, as it was then, or as it was made later in the transaction; null when there is none. */
  readonly fromToken: TokenAccountFacts | null;
  readonly toToken: TokenAccountFacts | null;
}

export type TokenMoveKind = 'transfer' | 'transferChecked' | 'transferWithFee' | 'mint' | 'burn';

export interface TokenMove extends MovePlace {
  readonly asset: 'token';
  readonly kind: TokenMoveKind;
  /** Token accounts; -1 for the source of a mint and the destination of a burn. */
  readonly source: number;
  readonly destination: number;
  /** Account that signed for it: owner, delegate, multisig or mint authority. */
  readonly authority: number;
  /** Owners at the time. An owner that is not known is -1, and for a source the authority. */
  readonly sourceOwner: number;
  readonly destinationOwner: number;
  readonly mint: number;
  /** Of the mint; null when nothing tells. */
  readonly decimals: number | null;
  /** Raw units, gross of a transfer fee. */
  readonly amount: bigint;
  /**
   * Raw units that the destination did not get. As the instruction says, or else what the balance of a destination shows that had
   * no other movement; 0 for SPL Token; null when it cannot be told (Token-2022).
   */
  readonly fee: bigint | null;
  /** Key of the token program. */
  readonly program: number;
}

export interface TokenAccountFacts {
  readonly mint: number;
  readonly owner: number;
  readonly program: number;
  /** Its lamports are its tokens. */
  readonly isWrapped: boolean;
}
