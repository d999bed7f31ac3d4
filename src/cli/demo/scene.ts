import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { programFile } from '../../platform/program-files.ts'

/** What the demo's three agents are asked, and the file that lets the first one go on. */
export interface Scene {
  readonly report: string
  readonly listen: string
  readonly endless: string
  readonly word: string
  readonly goFile: string
  /** The program that plays the agents; absent: the installed Claude Code. */
  readonly program?: string
}

const alphabet = [...'abcdefghijklmnopqrstuvwxyz']

/**
 * Writes the scripted agent's scenario and a launcher for it. Briefs are looked up by their exact text; nothing of them is
 * understood.
 */
export async function scriptedScene(folder: string): Promise<Scene> {
  const goFile = join(folder, 'go')
  const scene = {
    report: 'Write the alphabet into alphabet.txt, one letter a line, and answer with it.',
    listen: 'Wait for a word from the hub and repeat it.',
    endless: 'Work until you are stopped.',
    word: 'The word is: mesh.',
    goFile,
    program: join(folder, 'scripted', 'agent'),
  }
  const scenario = {
    turns: {
      [scene.report]: [
        { say: 'Writing.' },
        { tool: 'Write', input: { file_path: 'alphabet.txt', content: `${alphabet.join('\n')}\n` } },
        { wait_for_file: goFile },
        { say: alphabet.join('\n') },
      ],
      [scene.listen]: [{ say: 'Listening.' }, { wait_for_message: true }, { say: 'The word was taken in: mesh.' }],
      [scene.endless]: [{ say: 'At it.' }, { hang: true }],
    },
  }
  await mkdir(join(folder, 'scripted'))
  const scenarioFile = join(folder, 'scripted', 'scenario.json')
  await writeFile(scenarioFile, JSON.stringify(scenario))
  const agent = programFile('cli/demo/scripted-agent')
  await writeFile(
    scene.program,
    `#!/bin/sh\nexec ${quoted(process.execPath)} ${quoted(agent)} --scenario ${quoted(scenarioFile)} "$@"\n`,
  )
  await chmod(scene.program, 0o755)
  return scene
}

/** The same job for the real Claude Code. */
export function claudeScene(folder: string): Scene {
  const goFile = join(folder, 'go')
  return {
    report:
      'Write the 26 lower-case letters of the alphabet into a file alphabet.txt in your working directory, one letter per line. ' +
      'Then answer with exactly these 26 lines and nothing else.',
    listen:
      'Read the file /etc/hostname five times, one read after the other. Then answer with the last word that somebody sent you meanwhile, or with "none".',
    endless: 'Write the numbers from 1 to 5000 in words, ten to a line, without stopping.',
    word: 'The word is: mesh.',
    goFile,
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
