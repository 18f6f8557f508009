/** Whether the store itself is in trouble, rather than what was asked of it. */
export function isStoreTrouble(error: unknown): boolean {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return (
    typeof code === 'string' && code.startsWith('STORE_') && code !== 'STORE_CONFLICT' && code !== 'STORE_CONSTRAINT'
  );
}

/** Whether it is trouble that may pass. */
export function isPassingTrouble(error: unknown): boolean {
  return isStoreTrouble(error) && (error as { readonly retryable?: unknown }).retryable === true;
}
