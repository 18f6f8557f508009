import { codeOf } from '../lib/coded-error.ts';

/** Exit codes of the process. */
export const EXIT = { ok: 0, schemaNewer: 57, usage: 64, bug: 70, temporary: 75, config: 78 } as const;

/**
 * Every coded error of kernel and adapters, with what it means. A test compares this table with the codes that the source throws.
 * Plugins keep a table of their own.
 */
export const ERRORS = {
  CONFIG_INVALID: 'the configuration has errors; all of them are listed with their paths',
  CONFIG_UNREADABLE: 'the configuration file, or a file that a key ending in _FILE names, cannot be read',
  PLUGIN_NOT_FOUND: 'a plugin that the configuration names cannot be loaded',
  PLUGIN_INVALID: 'the default export of a plugin is not a plugin definition of this API version',
  PLUGIN_CONFLICT: 'two plugins contribute the same route, method, processor, job kind or single-owner part',
  PLUGIN_CYCLE: 'plugins use each other in a circle',
  PLUGIN_START_TIMEOUT: 'a plugin did not start in time',
  PLUGIN_START_FAILED: 'a plugin threw while it started',
  PLUGIN_SERVICE: 'a service was asked for that is not in `uses`, or offered and not provided',
  PLUGIN_TOO_EARLY: 'a plugin used the store or the outbox while it was provisioned',
  PLUGIN_RELOAD_REFUSED: 'a plugin, or a key that needs a restart, refused the new configuration; the old one stays',
  DAEMON_RUNNING: 'the command needs a stopped daemon',
  DAEMON_STOPPED: 'the daemon was stopped while it started',
  ROLE_SILENT: 'a role that runs in a thread of its own did not answer in time',
  ROLE_ENDED: 'the thread of a role ended without being asked to',
  ROLE_CRASHED: 'the thread of a role was ended by an error that nobody caught, or by its memory limit',
  STORE_BUSY: 'the database stayed locked by another process',
  STORE_FULL: 'the disk or the database is full',
  STORE_READ_ONLY: 'the database cannot be written',
  STORE_IO: 'the database could not read or write its files',
  STORE_DESCRIPTORS: 'the process has no file descriptor left to open the database with',
  STORE_UNREACHABLE: 'the database server does not answer',
  STORE_CORRUPT: 'the database file is damaged, or no database',
  STORE_CONFLICT: 'a row with the same unique key exists',
  STORE_CONSTRAINT: 'a row breaks a rule of its table other than a unique key',
  STORE_CLOSED: 'the store was used after it was closed',
  STORE_SCHEMA_NEWER: 'the database was migrated by a newer version whose changes this one does not know',
  STORE_COPY: 'a copy between two databases cannot begin, does not agree, or has not finished',
  STORE_BACKUP: 'a backup cannot be made, or is not one that can be restored',
  STORE_MIGRATION: 'a migration failed or its list is not 1, 2, 3 without holes',
  STORE_WRONG_CHAIN: 'the database belongs to another chain',
  CHAIN_UNREACHABLE: 'no upstream answered',
  CHAIN_TIMEOUT: 'no upstream answered in time',
  CHAIN_RPC_ERROR: 'the upstream answered with an error object',
  CHAIN_BAD_BLOCK: 'the blocks of all upstreams contradict themselves',
  CHAIN_BAD_TRANSACTION: 'the bytes of a transaction are malformed or of an unknown version',
  CHAIN_BAD_RESPONSE: 'the answer of an upstream is not JSON',
  STREAM_PACKAGE_MISSING: 'the client package of follow.stream is absent or does not load',
  UPSTREAM_CONNECT: 'the connection to an upstream could not be opened',
  UPSTREAM_FAILED: 'the connection to an upstream broke',
  UPSTREAM_TIMEOUT: 'an upstream did not answer in time',
  UPSTREAM_OTHER_CHAIN: 'an upstream serves another chain than the database holds, and is out of service',
  UPSTREAM_TOO_LARGE: 'the answer of an upstream is larger than allowed',
  OUTBOUND_BAD_URL: 'the address of an outbound request cannot be used: scheme, port, user info or form',
  OUTBOUND_BLOCKED_ADDRESS: 'an outbound request would reach an address that is not allowed',
  OUTBOUND_DNS: 'the host name of an outbound request could not be resolved',
  OUTBOUND_CONNECT: 'the connection of an outbound request could not be opened',
  OUTBOUND_TLS: 'the certificate or the TLS handshake of an outbound request failed',
  OUTBOUND_TIMEOUT: 'an outbound request was not answered in time, or was given up',
  OUTBOUND_RESET: 'the connection of an outbound request broke',
  OUTBOUND_BAD_RESPONSE: 'the answer to an outbound request is no valid HTTP',
  OUTBOUND_TOO_LARGE: 'the answer to an outbound request is larger than allowed',
  HTTP_PORT_TAKEN: 'an address to listen on is in use by another process',
  TLS_UNREADABLE: 'a file of http.tls or admin.tls cannot be read',
  TLS_INVALID:
    'the files of http.tls or admin.tls hold no certificate, no private key, or two that do not belong together',
  NOTIFY_SOCKETS_INVALID: 'the service manager passed sockets whose names do not tell what they are for',
  HTTP_LISTEN_FAILED: 'an address cannot be listened on',
  JOB_TIMEOUT: 'a job did not end within the time of its kind',
  JOB_SETTLE_FAILED: 'the kind of a job could not write what belongs to an outcome; the job is failed',
  JOB_STOPPED: 'a job was aborted because the daemon stops',
  FOLLOW_FENCED: 'another process follows the chain on this database',
  PROCESSOR_FAILED: 'a block processor of a plugin threw; the log has its stack',
  PROCESSOR_TIMEOUT: 'a block processor of a plugin did not end within follow.processorTimeoutSeconds',
  FOLLOW_GAP_TAKEN: 'another process changed a gap while it was being filled',
  FOLLOW_REWIND: 'released blocks cannot be taken back as far as --rewind-to asks',
  FOLLOW_NOT_FINAL: 'a range that is to be filled ends above the newest final slot',
  FOLLOW_DEEP_FORK: 'the fork is deeper than the finalized mark or the stored headers',
  POSEIDON_INPUT_TOO_LARGE: 'a number to be hashed is not below the prime of the field',
  SIGNUP_USAGE: 'the options of a sign-up do not fit the service, the file or each other',
  SIGNUP_AMOUNT: 'text is no amount of what is paid',
  SIGNUP_KEYPAIR: 'the file of a wallet cannot be read',
  SIGNUP_STATE: 'the file that a sign-up keeps its key in is of something else',
  SIGNUP_SERVICE: 'a service that is to be signed up at does not answer as expected',
  SIGNUP_REFUSED: 'a service refused a claim for good',
  SIGNUP_PAYMENT: 'a payment could not be signed, sent or looked up',
  SIGNUP_WAITING: 'a payment is not final yet',
  SIGNUP_LOST: 'a payment failed or was never taken by the chain',
  LOCAL_ENGINE_MISSING: 'the native engine of the local chain is absent or does not load',
  LOCAL_ENGINE_ANSWER: 'the engine of the local chain answered something unknown',
  LOCAL_BAD_TRANSACTION: 'the local chain was given bytes that are no transaction it can run',
  LOCAL_BAD_KEY: 'the local chain was given text or bytes that are no 32-byte key',
  LOCAL_BAD_PROGRAM: 'the local chain could not load a program or its assets',
  LOCAL_FORK_DEPTH: 'a fork of the local chain would reach beyond its finalized block',
  LOCAL_FAUCET: 'the faucet of the local chain could not send',
  LOCAL_RPC: 'an error object of the local chain for its client',
  LOCAL_CHILD: 'the process of the local chain did not start',
} as const;

export type ErrorCode = keyof typeof ERRORS;

/** Code and meaning of an error, for eyes outside the log: its message may name a path or an address. Null for an unknown one. */
export function wordsOf(error: unknown): string | null {
  const code = codeOf(error);
  return (
    Object.entries(ERRORS)
      .find(([known]) => known === code)
      ?.join(': ') ?? null
  );
}
