/** The files of the packages, by their paths: a folder for each language. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { goApi } from './go.ts';
import { type Documents, type Model, modelOf } from './model.ts';
import { pythonApi, pythonTypes } from './python.ts';
import { rustApi, rustTypes } from './rust.ts';
import { typescriptApi } from './typescript.ts';

export interface SdkOptions {
  /** Of the repository. */
  readonly root: string;
  /** Default: that of the documents. */
  readonly version?: string | undefined;
}

export function sdkFiles(documents: Documents, { root, version }: SdkOptions): ReadonlyMap<string, string> {
  const read = (name: string) => readFileSync(join(root, name), 'utf8');
  const model = modelOf(documents);
  const released = { ...model, version: version ?? model.version };
  const files = new Map<string, string>();
  for (const [language, make] of Object.entries(LANGUAGES)) {
    const own = make(released, (name) => read(`packaging/sdk/${language}/${name}`));
    for (const [name, text] of Object.entries(own)) files.set(`${language}/${name}`, text);
    files.set(
      `${language}/README.md`,
      read(`packaging/sdk/${language}/README.md`).replaceAll('VERSION', released.version),
    );
    files.set(`${language}/LICENSE`, read('LICENSE'));
  }
  return files;
}

type Write = (model: Model, own: (name: string) => string) => Readonly<Record<string, string>>;

const ABOUT = 'Calls a parhelion daemon: its routes and its methods of JSON-RPC';

const LANGUAGES: Readonly<Record<string, Write>> = {
  typescript: typescriptPackage,
  python: (model, own) => ({
    'parhelion_sdk/__init__.py': own('__init__.py'),
    'parhelion_sdk/client.py': own('client.py'),
    'parhelion_sdk/types.py': pythonTypes(model),
    'parhelion_sdk/api.py': pythonApi(model),
    'parhelion_sdk/py.typed': '',
  }),
  go: (model, own) => ({
    'client.go': own('client.go'),
    'api.go': goApi(model),
    'go.mod': 'module parhelion/sdk\n\ngo 1.21\n',
  }),
  rust: (model, own) => ({
    'src/lib.rs': own('lib.rs'),
    'src/client.rs': own('client.rs'),
    'src/types.rs': rustTypes(model),
    'src/api.rs': rustApi(model),
    'Cargo.toml': cargoManifest(model.version),
  }),
};

const cargoManifest = (version: string): string => `[package]
name = "parhelion-sdk"
version = "${version}"
edition = "2021"
description = "${ABOUT}"
license = "Apache-2.0"
readme = "README.md"

[dependencies]
serde = { version = "1", features = ["derive"] }
serde_json = "1"
ureq = "3"
`;

/** The sources from which the package for TypeScript is made. */
export function typescriptSources(model: Model, client: string): Readonly<Record<string, string>> {
  return { 'client.ts': client, 'index.ts': typescriptApi(model) };
}

function typescriptPackage(model: Model, own: (name: string) => string): Readonly<Record<string, string>> {
  const target = ts.ScriptTarget.ES2022;
  const compilerOptions = {
    target,
    module: ts.ModuleKind.ESNext,
    declaration: true,
    isolatedDeclarations: true,
    strict: true,
  };
  const files: Record<string, string> = {};
  for (const [fileName, text] of Object.entries(typescriptSources(model, own('client.ts')))) {
    const code = ts.transpileModule(text, { fileName, compilerOptions });
    const types = ts.transpileDeclaration(text, { fileName, compilerOptions });
    const [fault] = types.diagnostics ?? [];
    if (fault !== undefined) throw new Error(`${fileName}: ${ts.flattenDiagnosticMessageText(fault.messageText, ' ')}`);
    files[fileName.replace(/\.ts$/, '.js')] = code.outputText;
    files[fileName.replace(/\.ts$/, '.d.ts')] = types.outputText;
  }
  const manifest = {
    name: 'parhelion-sdk',
    version: model.version,
    description: ABOUT,
    license: 'Apache-2.0',
    type: 'module',
    engines: { node: '>=20' },
    sideEffects: false,
    exports: { '.': { types: './index.d.ts', default: './index.js' }, './package.json': './package.json' },
    files: Object.keys(files),
  };
  return { ...files, 'package.json': `${JSON.stringify(manifest, null, 2)}\n` };
}
