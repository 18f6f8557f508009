import type { TransactionError } from '../vm/errors.ts';

/** The node's own sentences for the errors that clients look for; the others are spelled from their names. */
const SENTENCES: Readonly<Record<string, string>> = {
  AccountNotFound: 'Attempt to debit an account but found no record of a prior credit.',
  AlreadyProcessed: 'This transaction has already been processed',
  BlockhashNotFound: 'Blockhash not found',
  InsufficientFundsForFee: 'Insufficient funds for fee',
  ProgramAccountNotFound: 'Attempt to load a program that does not exist',
  SanitizeFailure: 'Transaction failed to sanitize accounts offsets correctly',
  SignatureFailure: 'Transaction did not pass signature verification',
  AddressLookupTableNotFound: "Transaction loads an address table account that doesn't exist",
  GenericError: 'generic instruction error',
  InvalidInstructionData: 'invalid instruction data',
  InvalidAccountData: 'invalid account data for instruction',
  InsufficientFunds: 'insufficient funds for instruction',
  IncorrectProgramId: 'incorrect program id for instruction',
  MissingRequiredSignature: 'missing required signature for instruction',
  UninitializedAccount: 'instruction requires an initialized account',
  AccountAlreadyInitialized: 'instruction requires an uninitialized account',
  ProgramFailedToComplete: 'Program failed to complete',
};

/** One line for an error as a node prints it. */
export function errorText(error: TransactionError): string {
  if (typeof error === 'string') return SENTENCES[error] ?? spelled(error);
  const [index, detail] = (error['InstructionError'] as [number, unknown] | undefined) ?? [];
  if (index !== undefined) return `Error processing Instruction ${index}: ${detailText(detail)}`;
  const rent = error['InsufficientFundsForRent'] as { account_index: number } | undefined;
  if (rent !== undefined) {
    return `Transaction results in an account (${rent.account_index}) with insufficient funds for rent`;
  }
  return JSON.stringify(error);
}

function detailText(detail: unknown): string {
  if (typeof detail === 'string') return SENTENCES[detail] ?? spelled(detail);
  const custom = (detail as { Custom?: number }).Custom;
  return custom === undefined ? JSON.stringify(detail) : `custom program error: 0x${custom.toString(16)}`;
}

function spelled(name: string): string {
  return name.replace(/(?!^)[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
