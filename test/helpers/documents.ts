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
  readonly blocks: readonly Block[];
}

/** A fenced block. */
export interface Block {
  readonly language: string;
  /** What stands behind the language: `title=FILE`, `from=FILE`, `running`, or why it is not run. */
  readonly words: readonly string[];
  readonly text: string;
}

const FENCE = /^```(\w*)([^\n]*)\n(.*?)^```$/gms;

function readDocument(path: string): Document {
  const text = readFileSync(findProjectRoot() + path, 'utf8');
  const prose = text.replace(FENCE, '');
  return {
    path,
    text,
    prose,
    spans: [...prose.matchAll(/`([^`]+)`/g)].map(([, span]) => span!),
    blocks: [...text.matchAll(FENCE)].map(([, language, info, block]) => ({
      language: language!,
      text: block!,
      words: info!.split(' ').filter((word) => word !== ''),
    })),
  };
}

/** Pages of docs/ and its folders, by name. */
export function docsPages(): Document[] {
  const found = readdirSync(`${findProjectRoot()}docs`, { recursive: true, encoding: 'utf8' });
  const names = found.filter((name) => name.endsWith('.md'));
  return names.sort().map((name) => readDocument(`docs/${name}`));
}

/** All pages for users and contributors. */
export function allDocuments(): Document[] {
  return [
    ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'config/grafana/README.md'].map(readDocument),
    ...docsPages(),
  ];
}
