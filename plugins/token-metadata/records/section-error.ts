/** Why a part of an answer is missing. */
export type SectionError = 'UNKNOWN' | 'EMPTY_ACCOUNT' | 'TIMEOUT' | 'INVALID_ACCOUNT' | 'INVALID_PUBKEY';
