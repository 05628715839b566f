<?php
// Pages that write, each in one transaction.

require 'common.php';

$page = $_REQUEST['page'] ?? '';
$item = number('item');
$database->begin_transaction();
switch ($page) {
    case 'register':
        rows('insert into users (nickname, password, region, created) values (?, ?, ?, now())', $_REQUEST['nickname'],
            $_REQUEST['password'], number('region'));
        break;
    case 'sell':
        $price = number('price');
        rows('insert into items (name, description, seller, category, quantity, initial_price, buy_now, max_bid, ends)
            values (?, ?, ?, ?, 1, ?, ?, ?, now() + interval 7 day)', $_REQUEST['name'], $_REQUEST['description'],
            user(), number('category'), $price, $price * 2, $price);
        break;
    case 'bid':
        $me = user();
        $price = row('select max_bid from items where id = ? for update', $item)['max_bid'] + 1;
        rows('insert into bids (user, item, quantity, bid, placed) values (?, ?, 1, ?, now())', $me, $item, $price);
        rows('update items set max_bid = ?, bids = bids + 1 where id = ?', $price, $item);
        break;
    case 'buy':
        $me = user();
        row('select quantity from items where id = ? for update', $item);
        rows('update items set quantity = greatest(quantity - 1, 0) where id = ?', $item);
        rows('insert into sales (buyer, item, quantity, placed) values (?, ?, 1, now())', $me, $item);
        break;
    case 'comment':
        $me = user();
        $rating = number('rating');
        rows('update users set rating = rating + ? where id = ?', $rating, number('user'));
        rows('insert into comments (author, subject, item, rating, placed, comment) values (?, ?, ?, ?, now(), ?)', $me,
            number('user'), $item, $rating, $_REQUEST['comment']);
        break;
    default:
        http_response_code(404);
}
$database->commit();
page('Done: ' . htmlspecialchars($page), '<p>Thank you.</p>');
