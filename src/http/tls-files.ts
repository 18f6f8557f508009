import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { apiProcesses, type CoreConfig, type TlsSection } from '../config/core.ts';
import { CodedError, codeOf, EXIT } from '../lib/coded-error.ts';

/** Older protocol versions are insecure. */
export const MIN_TLS_VERSION = 'TLSv1.2';

/** A checked certificate with its key. */
export interface TlsFiles {
  readonly cert: Buffer;
  readonly key: Buffer;
  /** SHA-256 of the certificate, to detect a change. */
  readonly fingerprint: string;
  /** Names and addresses of the certificate, as written in it. */
  readonly names: string;
  /** Validity, in unix milliseconds. */
  readonly validFromMs: number;
  readonly validToMs: number;
}

/**
 * Reads the certificate of a section and checks that a listener can serve it; null if none is configured. Errors: TLS_UNREADABLE,
 * TLS_INVALID, exit 78; they name the files but never quote them.
 */
export function readTlsFiles(core: Pick<CoreConfig, TlsSection>, section: TlsSection): TlsFiles | null {
  const { certFile, keyFile } = core[section].tls;
  const name = `${section}.tls`;
  if (certFile === null && keyFile === null) return null;
  if (certFile === null || keyFile === null) throw invalid(`${name} needs both certFile and keyFile, or neither`);
  // A process cannot hand an encrypted connection to another one.
  if (section === 'http' && apiProcesses(core) > 1)
    throw invalid(`${name} works with one process: set http.processes to 1, or let a proxy in front end TLS`);
  const cert = readFile(`${name}.certFile`, certFile);
  const key = readFile(`${name}.keyFile`, keyFile);
  const certificate = parse(() => new X509Certificate(cert), `${name}.certFile: ${certFile} holds no PEM certificate`);
  const privateKey: KeyObject = parse(
    () => createPrivateKey(key),
    `${name}.keyFile: ${keyFile} holds no PEM private key, or one with a passphrase`,
  );
  if (!certificate.checkPrivateKey(privateKey))
    throw invalid(`${name}: the key of ${keyFile} is not that of the certificate in ${certFile}`);
  parse(
    () => createSecureContext({ cert, key, minVersion: MIN_TLS_VERSION }),
    `${name}: ${certFile} and ${keyFile} cannot be served: the chain is damaged, or the key too weak`,
  );
  return {
    cert,
    key,
    fingerprint: certificate.fingerprint256,
    names: certificate.subjectAltName ?? certificate.subject,
    validFromMs: Date.parse(certificate.validFrom),
    validToMs: Date.parse(certificate.validTo),
  };
}

function readFile(name: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new CodedError('TLS_UNREADABLE', `${name}: ${path} cannot be read (${codeOf(error) ?? 'error'})`, {
      exitCode: EXIT.config,
    });
  }
}

/** Omits the message of OpenSSL, which may quote the file. */
function parse<T>(make: () => T, problem: string): T {
  try {
    return make();
  } catch {
    throw invalid(problem);
  }
}

const invalid = (problem: string) => new CodedError('TLS_INVALID', problem, { exitCode: EXIT.config });
