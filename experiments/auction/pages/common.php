<?php
// The connection to the database, and what all pages have at their beginning and end.

mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
$database = new mysqli('p:' . getenv('AUCTION_DATABASE'), 'root', '', 'auction');

/** The rows that a statement finds; its values take the places of the question marks. */
function rows(string $statement, ...$values): array
{
    global $database;
    $answer = $database->execute_query($statement, $values);
    return is_bool($answer) ? [] : $answer->fetch_all(MYSQLI_ASSOC);
}

/** The only row that there is to be; without it the page is an error. */
function row(string $statement, ...$values): array
{
    $found = rows($statement, ...$values);
    if (!$found) {
        http_response_code(404);
        exit('There is no such thing.');
    }
    return $found[0];
}

function number(string $name): int
{
    return (int) ($_REQUEST[$name] ?? 0);
}

/** Whose nickname and password these are. */
function user(): int
{
    return row('select id from users where nickname = ? and password = ?', $_REQUEST['nickname'] ?? '',
        $_REQUEST['password'] ?? '')['id'];
}

function page(string $title, string ...$parts): void
{
    echo '<!DOCTYPE html><html><head><title>', $title, '</title></head><body><p>',
        '<a href="/browse.php?page=home">Home</a> ', '<a href="/browse.php?page=categories">Browse</a></p><h1>', $title, '</h1>', implode($parts), '</body></html>';
}

function table(array $rows): string
{
    $html = '<table>';
    foreach ($rows as $row) {
        $cells = array_map(fn($value) => htmlspecialchars((string) $value), $row);
        $html .= '<tr><td>' . implode('</td><td>', $cells) . '</td></tr>';
    }
    return $html . '</table>';
}
