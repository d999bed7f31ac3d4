import { statfs } from 'node:fs/promises'

/** Bytes that this user may still write on the file system that holds `path`. */
export async function freeBytes(path: string): Promise<number> {
  const { bavail, bsize } = await statfs(path)
  return bavail * bsize
}
