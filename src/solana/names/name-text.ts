/** A name as a person writes it, taken apart. */
export interface NameText {
  /** Lower case, as it was given otherwise. */
  readonly text: string;
  /** Parts before the suffix, outermost last. */
  readonly labels: readonly string[];
  /** Last part, without its dot. */
  readonly suffix: string;
}

const MAX_LENGTH = 255;

/** Null when the text cannot be a name: no dot, empty parts, blanks or control characters, or too long. */
export function parseName(given: string): NameText | null {
  if (given.length > MAX_LENGTH || !given.includes('.')) return null;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
  if (/[\u0000-\u0020\u007f-\u00a0\u2028\u2029]/.test(given)) return null;
  const text = given.toLowerCase();
  const parts = text.split('.');
  if (parts.some((part) => part === '')) return null;
  return { text, labels: parts.slice(0, -1), suffix: parts[parts.length - 1] as string };
}
