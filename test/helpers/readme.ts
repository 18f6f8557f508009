import { readFileSync } from 'node:fs';
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

/** The only block that holds `marker`. */
export function readmeBlock(marker: string): string {
  const found = readmeBlocks().filter(({ text }) => text.includes(marker));
  if (found.length !== 1) throw new Error(`${found.length} blocks of the README hold ${marker}`);
  return found[0]!.text;
}

/** The commands of a shell block, comments taken away. */
export const commandsOf = (block: string): string[] =>
  block
    .split('\n')
    .map((line) => line.replace(/\s+#.*$/, '').trim())
    .filter((line) => line !== '');
