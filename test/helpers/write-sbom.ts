/**
 * `npm run --silent sbom > sbom.json`: what is installed for production, from package-lock.json, as CycloneDX JSON. `npm sbom --omit dev`
 * leaves out whatever a development dependency wants too, and the whole tree it refuses for its optional parts. With a file, a JSON list of
 * paths of package-lock.json: those packages only, as a release contains them.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { findProjectRoot } from './project-root.ts';

interface LockEntry {
  readonly name?: string;
  readonly version: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}
type Packages = Readonly<Record<string, LockEntry>>;

export function createSbom(packages: Packages) {
  const paths = Object.keys(packages).filter((path) => path !== '' && packages[path]?.dev !== true);
  const components = new Map(paths.map((path) => [purlOf(packages, path), componentOf(packages, path)]));
  const edges = ['', ...paths].map((path) => ({
    ref: purlOf(packages, path),
    dependsOn: [...new Set(wantedBy(packages, path))].map((found) => purlOf(packages, found)).sort(),
  }));
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.5.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: { component: { ...componentOf(packages, ''), type: 'application' } },
    components: [...components.values()],
    dependencies: [...new Map(edges.map((edge) => [edge.ref, edge])).values()],
  };
}

function only(packages: Packages, places: readonly string[]): Packages {
  const missing = places.filter((place) => packages[place] === undefined);
  if (missing.length > 0) throw new Error(`package-lock.json does not contain ${missing.join(', ')}`);
  // What a release contains is needed, whatever a checkout needs it for.
  const kept = places.map((place) => [place, { ...packages[place]!, dev: false }] as const);
  return Object.fromEntries([['', packages['']!] as const, ...kept]);
}

const nameOf = (packages: Packages, path: string): string =>
  packages[path]?.name ?? path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);

const purlOf = (packages: Packages, path: string): string =>
  `pkg:npm/${nameOf(packages, path).replace('@', '%40')}@${packages[path]?.version}`;

function componentOf(packages: Packages, path: string) {
  const { version, license, integrity, optional } = packages[path] as LockEntry;
  const purl = purlOf(packages, path);
  return {
    type: 'library',
    'bom-ref': purl,
    name: nameOf(packages, path),
    version,
    purl,
    scope: optional === true ? 'optional' : 'required',
    ...(license === undefined ? {} : { licenses: [licenseOf(license)] }),
    ...(integrity === undefined ? {} : { hashes: [hashOf(integrity)] }),
  };
}

/** An identifier of SPDX, several of them, or words of the author. */
function licenseOf(license: string) {
  if (license.includes(' ')) return { expression: license.replaceAll(/^\(|\)$/g, '') };
  return { license: license.includes('-') || /^(MIT|ISC|0BSD)$/.test(license) ? { id: license } : { name: license } };
}

function hashOf(integrity: string) {
  const [algorithm = '', digest = ''] = integrity.split('-', 2);
  return { alg: algorithm.replace('sha', 'SHA-'), content: Buffer.from(digest, 'base64').toString('hex') };
}

/** Where the dependencies of a package are found: beside it, or in the nearest folder above. */
function wantedBy(packages: Packages, path: string): string[] {
  const { dependencies = {}, optionalDependencies = {} } = packages[path] as LockEntry;
  return Object.keys({ ...dependencies, ...optionalDependencies }).flatMap((name) => {
    for (let folder = path; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
      const candidate = `${folder === '' ? '' : `${folder}/`}node_modules/${name}`;
      if (packages[candidate] !== undefined) return [candidate];
      if (folder === '') return [];
    }
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const lock = JSON.parse(readFileSync(`${findProjectRoot()}package-lock.json`, 'utf8')) as { packages: Packages };
  const list = process.argv[2];
  const packages =
    list === undefined ? lock.packages : only(lock.packages, JSON.parse(readFileSync(list, 'utf8')) as string[]);
  process.stdout.write(`${JSON.stringify(createSbom(packages), null, 2)}\n`);
}
