import { readFileSync } from 'node:fs';
import { docsPages } from './documents.ts';
import { findProjectRoot } from './project-root.ts';

export interface CodeBlock {
  readonly language: string;
  readonly text: string;
}

export const readmeText = (): string => readFileSync(`${findProjectRoot()}README.md`, 'utf8');

export function readmeBlocks(): CodeBlock[] {
  return [...readmeText().matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language, text]) => ({
    language: language!,
    text: text!,
  }));
}

/** The README and the pages of docs/. */
export const guideText = (): string => [readmeText(), ...docsPages().map(({ text }) => text)].join('\n');

/** The only block of the README that holds `marker`. */
export const readmeBlock = (marker: string): string => onlyOne(readmeBlocks(), marker);

/** Like `readmeBlock`, for the pages of docs/. */
export const docsBlock = (marker: string): string =>
  onlyOne(
    docsPages().flatMap(({ blocks }) => blocks),
    marker,
  );

function onlyOne(blocks: readonly CodeBlock[], marker: string): string {
  const found = blocks.filter(({ text }) => text.includes(marker));
  if (found.length !== 1) throw new Error(`${found.length} blocks hold ${marker}`);
  return found[0]!.text;
}

/** The commands of a shell block, comments taken away. */
export const commandsOf = (block: string): string[] =>
  block
    .split('\n')
    .map((line) => line.replace(/\s+#.*$/, '').trim())
    .filter((line) => line !== '');
