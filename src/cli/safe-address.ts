const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/** Whether what is sent to a service stays secret and unchanged on its way: https, or http on this machine. */
export function isSafeAddress(url: string): boolean {
  const { protocol, hostname } = new URL(URL.canParse(url) ? url : 'none:');
  return protocol === 'https:' || (protocol === 'http:' && LOOPBACK.test(hostname));
}
