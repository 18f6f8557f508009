import { readdirSync, readFileSync } from 'node:fs';
import { findProjectRoot } from './project-root.ts';

export interface Document {
  /** From the folder of the project. */
  readonly path: string;
  readonly text: string;
  /** Text without fenced blocks. */
  readonly prose: string;
  /** What stands in single backticks. */
  readonly spans: readonly string[];
  /** Fenced blocks. */
  readonly blocks: readonly { readonly language: string; readonly text: string }[];
}

const FENCE = /^```(\w*)\n(.*?)^```$/gms;

function readDocument(path: string): Document {
  const text = readFileSync(findProjectRoot() + path, 'utf8');
  const prose = text.replace(FENCE, '');
  return {
    ...{ path, text, prose },
    spans: [...prose.matchAll(/`([^`]+)`/g)].map(([, span]) => span!),
    blocks: [...text.matchAll(FENCE)].map(([, language, block]) => ({ language: language!, text: block! })),
  };
}

/** Pages of docs/, by name. */
export function docsPages(): Document[] {
  const names = readdirSync(`${findProjectRoot()}docs`).filter((name) => name.endsWith('.md'));
  return names.sort().map((name) => readDocument(`docs/${name}`));
}

/** All pages for users and contributors. */
export function allDocuments(): Document[] {
  return [
    ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'config/grafana/README.md'].map(readDocument),
    ...docsPages(),
  ];
}
